"""The clients: streams that are held open and counted, and short requests one after the other."""

import asyncio
import json
from collections.abc import Sequence
from contextlib import suppress
from typing import cast
from urllib.parse import urlsplit

from splitpool_bench.proxying.upstream import MODEL

# Opening is no flood: what is measured begins when all are open.
_OPENED_AT_ONCE = 20
_MARK = b"data: {"


def body(tokens: int) -> bytes:
    """A streamed chat request."""
    message = {"role": "user", "content": "Why is the sky blue? " * 8}
    return json.dumps(
        {"model": MODEL, "messages": [message], "max_tokens": tokens, "stream": True}
    ).encode()


class _Reader(asyncio.Protocol):
    """Counts the events of one answer without parsing them."""

    def __init__(self, streams: "Streams") -> None:
        loop = asyncio.get_running_loop()
        self._streams = streams
        self.begun: asyncio.Future[None] = loop.create_future()
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._streams.tokens += data.count(_MARK)
        if not self.begun.done():
            if data.startswith(b"HTTP/1.1 200"):
                self.begun.set_result(None)
            else:
                self.begun.set_exception(RuntimeError(data[:500].decode(errors="replace")))

    def connection_lost(self, exc: Exception | None) -> None:
        self._streams.lost += 1
        if not self.begun.done():
            self.begun.set_exception(ConnectionError("no answer"))


class Streams:
    """Answers that are being read, and how many tokens have come over all of them."""

    def __init__(self, url: str, count: int) -> None:
        self._where = urlsplit(url)
        self._count = count
        self._readers: list[_Reader] = []
        self.tokens = 0
        self.lost = 0

    async def open(self) -> None:
        """Until every stream has begun; raises what keeps one from it."""
        for _ in range(0, self._count, _OPENED_AT_ONCE):
            await asyncio.gather(*(self._one() for _ in range(_OPENED_AT_ONCE)))

    def close(self) -> None:
        """Leave all of them."""
        for reader in self._readers:
            if reader.transport is not None:
                reader.transport.abort()

    async def _one(self) -> None:
        loop = asyncio.get_running_loop()
        host, port = self._where.netloc.split(":")
        _, reader = await loop.create_connection(lambda: _Reader(self), host, int(port))
        self._readers.append(reader)
        assert reader.transport is not None
        reader.transport.write(request(self._where.netloc, body(1_000_000)))
        async with asyncio.timeout(30):
            await reader.begun


def request(host: str, data: bytes) -> bytes:
    """The bytes of a request."""
    head = (
        f"POST /v1/chat/completions HTTP/1.1\r\nHost: {host}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n"
    )
    return head.encode() + data


async def short_requests(url: str, users: int, count: int) -> None:
    """`count` answers of one token, by so many users, each over one connection."""
    where = urlsplit(url)
    wanted = request(where.netloc, body(1))
    shares: Sequence[int] = [count // users] * users

    async def user(share: int) -> None:
        reader, writer = await asyncio.open_connection(where.hostname, where.port)
        try:
            for _ in range(share):
                writer.write(wanted)
                head = await reader.readuntil(b"\r\n\r\n")
                if not head.startswith(b"HTTP/1.1 200"):
                    raise RuntimeError(head.decode(errors="replace"))
                await reader.readuntil(b"\r\n0\r\n\r\n")
        finally:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()

    async with asyncio.TaskGroup() as group:
        for share in shares:
            group.create_task(user(share))
