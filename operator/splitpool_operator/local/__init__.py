"""A pool on this machine: its workers and the router as child processes."""
