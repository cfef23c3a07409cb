"""Writes a stream's events to one client: in order, with heartbeats, never more than it takes."""

import asyncio
from collections.abc import Callable

from aiohttp import web

from splitpool_worker.api import sse
from splitpool_worker.api.answers import dump
from splitpool_worker.api.errors import ApiError, reader_too_slow
from splitpool_worker.api.ring import Position, StreamGone
from splitpool_worker.api.service import Intervals
from splitpool_worker.api.streams import Reader, Stream

WRITE_BYTES = 64 * 1024
HEADERS = {
    "Content-Type": "text/event-stream",
    "Cache-Control": "no-cache",
    "X-Accel-Buffering": "no",
}
_REPLACED = ApiError(409, "reader_replaced", "Another reader took over this stream.")


class Connection:
    """One client that reads one stream. `lead` goes out right before the first token's event."""

    def __init__(
        self,
        stream: Stream,
        position: Position,
        intervals: Intervals,
        lead: Callable[[], bytes] | None = None,
    ) -> None:
        self._arrived = asyncio.Event()
        self._intervals = intervals
        self._lead = lead
        self._gone = False
        self.reader: Reader = stream.attach(position, self._arrived.set)

    async def pump(self, request: web.Request, response: web.StreamResponse) -> None:
        """Send events until the stream ends, the client leaves or another reader comes."""
        await response.prepare(request)
        try:
            await self._pump(request, response)
            await response.write_eof()
        except ConnectionResetError:
            pass  # the client left; the caller sees that the stream has not been read to its end

    async def _pump(self, request: web.Request, response: web.StreamResponse) -> None:
        while True:
            self._arrived.clear()
            data = self._collect()
            if data:
                await self._write(request, response, data)
            end = self._end()
            if end is not None:
                await self._write(request, response, end)
                return
            if not data:
                await self._write(request, response, await self._wait())

    def _collect(self) -> bytes:
        """All events that are there, up to the size of one write."""
        chunks: list[bytes] = []
        size = 0
        try:
            while size < WRITE_BYTES and not self.reader.replaced:
                taken = self.reader.take()
                if taken is None:
                    break
                event, data = taken
                if event.first and self._lead is not None:
                    chunks.append(self._lead())
                chunks.append(data)
                size += len(data)
        except StreamGone:
            self._gone = True
        return b"".join(chunks)

    def _end(self) -> bytes | None:
        """How this reader's part ends; None while it goes on."""
        if self.reader.replaced:
            return sse.error(dump(_REPLACED.body()))
        if self._gone:
            return sse.error(dump(reader_too_slow().body()))
        if self.reader.finished:
            return self.reader.stream.failed or b""
        return None

    async def _wait(self) -> bytes:
        """A ping when nothing comes for a while."""
        try:
            async with asyncio.timeout(self._intervals.heartbeat):
                await self._arrived.wait()
        except TimeoutError:
            return sse.PING
        return b""

    async def _write(self, request: web.Request, response: web.StreamResponse, data: bytes) -> None:
        if not data:
            return
        try:
            async with asyncio.timeout(self._intervals.stall):
                await response.write(data)
        except TimeoutError:
            if request.transport is not None:
                request.transport.abort()
            raise ConnectionResetError("the client takes no data") from None
