"""Which event loop does a server run on? uvloop's where it is installed, else asyncio's own."""

import asyncio


def new() -> asyncio.AbstractEventLoop:
    """A loop that nobody runs yet."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()
