"""How does a cluster come to match its pools? Watch, compare, apply, prune, report."""
