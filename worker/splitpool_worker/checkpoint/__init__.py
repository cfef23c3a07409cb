"""A model's files: where they are, what is in them, what they will take in memory."""
