"""Reconciles InferencePools, and runs one on a single machine."""
