"""Request bodies, read and parsed: small ones on the event loop, large ones beside it, in turns.

A body of megabytes takes several times its size while it is parsed. Two at a time bound that, and
what they took is given back to the system, not kept in the heap beside the quota.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from aiohttp import web

from splitpool_worker.api.errors import ApiError
from splitpool_worker.checkpoint import heap

# Parsing a larger body takes milliseconds, so it leaves the event loop to others.
INLINE_BYTES = 64 * 1024
# What a smaller body leaves in the heap is soon used again.
GIVE_BACK_BYTES = 1024 * 1024
ARRIVAL_SECONDS = 120.0

T = TypeVar("T")


@dataclass(slots=True, eq=False)
class Bodies:
    """How many large bodies are in work."""

    _room: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(2))

    async def read(
        self, request: web.Request, parse: Callable[[bytes], T], clock: Callable[[], float]
    ) -> tuple[T, float]:
        """What the body says, and the seconds that parsing took. Raises what `parse` raises, and
        ApiError when the body does not arrive in time."""
        size = request.content_length
        if size is not None and size <= INLINE_BYTES:
            body = await _arrived(request)
            before = clock()
            return parse(body), clock() - before
        async with self._room:
            body = await _arrived(request)
            before = clock()
            try:
                parsed = await asyncio.to_thread(parse, body)
                return parsed, clock() - before
            finally:
                if len(body) >= GIVE_BACK_BYTES:
                    del body
                    await asyncio.to_thread(heap.give_back)


async def _arrived(request: web.Request) -> bytes:
    try:
        async with asyncio.timeout(ARRIVAL_SECONDS):
            return await request.read()
    except TimeoutError:
        raise ApiError(
            408,
            "request_timeout",
            f"The body did not arrive within {ARRIVAL_SECONDS:g} s.",
        ) from None
