"""Measures a pool from outside."""
