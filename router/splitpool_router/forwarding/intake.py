"""Reads request bodies once, bounded in size, in time and in what all of them hold together.

Two framings in one request (Content-Length with Transfer-Encoding) are refused by aiohttp's
parser before a route is found.
"""

import asyncio
from collections.abc import Callable
from typing import TypeVar

from aiohttp import web

from splitpool_router.errors import BadRequest, BodyTooLarge, QueueFull, RequestTimeout
from splitpool_serving.large_bodies import LargeBodies

T = TypeVar("T")


class Intake:
    """The bodies of all requests that are being read, wait or run."""

    def __init__(
        self, *, body_limit: int, total_limit: int, seconds: float, large: LargeBodies
    ) -> None:
        self._body_limit = body_limit
        self._total_limit = total_limit
        self._seconds = seconds
        self._large = large
        self.held = 0

    def body(self, request: web.Request) -> "Body":
        """The body's bytes, counted as held until the block is left."""
        return Body(self, request)

    async def parsed(self, body: bytes, parse: Callable[[bytes], T]) -> T:
        """What a body says, without holding the loop for a large one. Raises what `parse` does."""
        return await self._large.parse(body, parse)

    async def read(self, request: web.Request, counted: "Body") -> bytes:
        """The whole body, each part counted as it comes; raises what refuses it."""
        if (request.content_length or 0) > self._body_limit:
            raise self._too_large(f"a body of {request.content_length} bytes")
        parts: list[bytes] = []
        try:
            async with asyncio.timeout(self._seconds):
                while chunk := await request.content.readany():
                    counted.add(len(chunk))
                    if counted.size > self._body_limit:
                        raise self._too_large("the body")
                    self._refuse_when_full()
                    parts.append(chunk)
        except TimeoutError:
            raise RequestTimeout(f"the body did not arrive within {self._seconds:g} s") from None
        except web.RequestPayloadError:
            raise _unreadable(request) from None
        return b"".join(parts)

    def left(self, body: "Body") -> None:
        """The body is no longer held."""
        self.held -= body.size
        self._large.left(body.size)

    def _refuse_when_full(self) -> None:
        if self.held > self._total_limit:
            raise QueueFull(
                f"the router holds request bodies of {self._total_limit} bytes, its limit:"
                " send less at once or retry later",
                retry_after=5,
            )

    def _too_large(self, what: str) -> BodyTooLarge:
        return BodyTooLarge(f"{what} exceeds the limit of {self._body_limit} bytes")


def _unreadable(request: web.Request) -> BadRequest:
    """The bytes are not what the headers say, and where the next request begins is unknown."""
    encoding = request.headers.get("Content-Encoding")
    said = "chunked" if encoding is None else f"Content-Encoding {encoding[:40]!r}"
    return BadRequest(
        f"the body cannot be read as {said}, as its headers call it: send it plain, with a"
        " Content-Length",
        headers={"Connection": "close"},
    )


class Body:
    """One body's share of what is held."""

    __slots__ = ("_intake", "_request", "size")

    def __init__(self, intake: Intake, request: web.Request) -> None:
        self._intake = intake
        self._request = request
        self.size = 0

    async def __aenter__(self) -> bytes:
        try:
            return await self._intake.read(self._request, self)
        except BaseException:
            self._intake.left(self)
            raise

    async def __aexit__(self, *error: object) -> None:
        self._intake.left(self)

    def add(self, size: int) -> None:
        """So many bytes have come."""
        self.size += size
        self._intake.held += size
