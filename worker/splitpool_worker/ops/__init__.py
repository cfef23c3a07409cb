"""The fused operations, and which implementation a worker runs on."""
