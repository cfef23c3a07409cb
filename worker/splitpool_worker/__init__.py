"""One worker: one model, one or two latency classes, a VRAM quota each."""
