"""Which fence around the quota does this worker see working? Never the one that was asked for."""
