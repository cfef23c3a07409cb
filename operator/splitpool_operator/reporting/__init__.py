"""What does a pool's status say about what was observed? Pure."""
