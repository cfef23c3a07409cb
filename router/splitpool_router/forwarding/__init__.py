"""A request's way to a worker and the answer's way back, also after a lost connection."""
