"""Where a request goes: its latency class, its turn, its worker, and who makes room for it."""
