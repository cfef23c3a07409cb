"""Reads a request's body once, within the limit on its size.

Two framings in one request (Content-Length with Transfer-Encoding) are refused by aiohttp's
parser before a route is found.
"""

from aiohttp import web

from splitpool_router.errors import BodyTooLarge


async def read(request: web.Request, *, limit: int) -> bytes:
    """The body's bytes; refuses a too large one before reading it where its length is given."""
    if (request.content_length or 0) > limit:
        raise _too_large(request.content_length, limit)
    try:
        return await request.read()
    except web.HTTPRequestEntityTooLarge:
        raise _too_large(None, limit) from None


def _too_large(size: int | None, limit: int) -> BodyTooLarge:
    length = "a chunked body" if size is None else f"a body of {size} bytes"
    return BodyTooLarge(f"{length} exceeds the limit of {limit} bytes")
