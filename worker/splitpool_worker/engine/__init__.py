"""The thread that runs step after step, and the model behind it."""
