"""How is a pool in the cluster? Read once, judged purely, shown on a terminal or as data."""
