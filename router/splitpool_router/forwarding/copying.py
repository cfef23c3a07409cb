"""Copies an event stream from a worker to a client, chunk by chunk: the path of every token.

It runs in a task of its own. A task that wakes walks through every frame that awaits, and those of
a request are many; here they are few.
"""

import asyncio
from collections.abc import Callable, Mapping

import aiohttp
from aiohttp import web

from splitpool_router.forwarding.sse import Borders, FirstContent, ended
from splitpool_router.forwarding.watchdog import Guard
from splitpool_router.measuring.trip import clock

# What reading from a worker raises when it is gone.
LOST = (aiohttp.ClientError, OSError, RuntimeError)
# An answer's last bytes that are looked at: its end, and its usage.
TAIL = 4096

# Told once, when the first content is written: the worker's times, when it came, and since when it
# was being written.
OnFirst = Callable[[Mapping[str, float] | None, float, float], None]


async def copied(
    reader: aiohttp.StreamReader, out: web.StreamResponse, guard: Guard, on_first: OnFirst
) -> bytes | None:
    """The last bytes, or None where the worker was lost before the stream's end.

    Raises ConnectionError where the client is gone.
    """
    task = asyncio.create_task(_copy(reader, out, guard, on_first))
    task.add_done_callback(_looked_at)
    return await task


def _looked_at(task: asyncio.Task[bytes | None]) -> None:
    """A request that is cancelled as its copy fails has nobody else who takes the exception."""
    if not task.cancelled():
        task.exception()


async def _copy(
    reader: aiohttp.StreamReader, out: web.StreamResponse, guard: Guard, on_first: OnFirst
) -> bytes | None:
    borders = Borders()
    start = await _until_first(reader, out, guard, borders, on_first)
    if start is None:
        return None
    # From here on it only looks for the ends of events.
    before, last = b"", start
    while True:
        guard.writing = False
        try:
            chunk = await reader.readany()
        except LOST:
            break
        if not chunk:
            break
        guard.ticks += 1
        part = borders.feed(chunk)
        if part:
            before, last = last, part
            guard.writing = True
            await out.write(part)
    tail = (before + last)[-TAIL:]
    return tail if ended(tail) else None


async def _until_first(
    reader: aiohttp.StreamReader,
    out: web.StreamResponse,
    guard: Guard,
    borders: Borders,
    on_first: OnFirst,
) -> bytes | None:
    """Copies until the first content is written; the last bytes, or None when the worker broke."""
    first = FirstContent()
    tail = b""
    while True:
        guard.writing = False
        try:
            chunk = await reader.readany()
        except LOST:
            return None
        arrived = clock()
        if not chunk:
            return tail
        guard.ticks += 1
        part = borders.feed(first.feed(chunk))
        if not part:
            continue
        tail = (tail + part)[-TAIL:]
        guard.writing = True
        writing = clock()
        await out.write(part)
        if first.found:
            on_first(first.times, arrived, writing)
            return tail
