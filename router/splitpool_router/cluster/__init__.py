"""Pools and workers of a cluster: listed, watched, and merged into snapshots."""
