"""Request bodies, read and parsed: small ones on the event loop, large ones beside it, in turns.

A body of megabytes takes several times its size while it is parsed: two at a time bound that.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from aiohttp import web

from splitpool_serving.large_bodies import INLINE_BYTES, LargeBodies
from splitpool_worker.api.errors import ApiError

ARRIVAL_SECONDS = 120.0
_AT_ONCE = 2

T = TypeVar("T")
Clock = Callable[[], float]


@dataclass(slots=True, eq=False)
class Bodies:
    """How many large bodies are in work."""

    _room: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_AT_ONCE))
    _large: LargeBodies = field(default_factory=lambda: LargeBodies(at_once=_AT_ONCE))

    async def read(
        self, request: web.Request, parse: Callable[[bytes], T], clock: Clock
    ) -> tuple[T, float]:
        """What the body says, and the seconds that parsing took. Raises what `parse` raises, and
        ApiError when the body does not arrive in time."""
        size = request.content_length
        if size is not None and size <= INLINE_BYTES:
            return await self._read(request, parse, clock)
        async with self._room:
            return await self._read(request, parse, clock)

    def close(self) -> None:
        """Nothing will be read any more."""
        self._large.close()

    async def _read(
        self, request: web.Request, parse: Callable[[bytes], T], clock: Clock
    ) -> tuple[T, float]:
        body = await _arrived(request)
        before = clock()
        try:
            return await self._large.parse(body, parse), clock() - before
        finally:
            self._large.left(len(body))


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
