"""What the router knows now: the pools, their workers, how those are."""
