"""The OpenAI-compatible face of a worker, over aiohttp."""
