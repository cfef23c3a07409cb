"""The splitpool command."""
