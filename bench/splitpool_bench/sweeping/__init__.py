"""What does each knob of the batching do? One varied at a time, on the same requests."""
