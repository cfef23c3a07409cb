"""What the user saw: where the time to the first token went, and every series of the router."""
