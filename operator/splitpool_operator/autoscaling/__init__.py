"""How many workers should each class of a pool have, and why? Pure."""
