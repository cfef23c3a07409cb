"""Sends every request to the pool of its latency class."""
