"""Model architectures, written once against the operations."""
