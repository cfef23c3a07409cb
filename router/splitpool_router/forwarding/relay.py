"""Copies a worker's answer to the client, chunk by chunk, each write awaited."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import aiohttp
from aiohttp import web
from multidict import CIMultiDict

from splitpool_router.errors import WorkerBroke, error_event
from splitpool_router.forwarding.headers import downstream
from splitpool_router.forwarding.sse import Borders, FirstContent, ended, failed
from splitpool_router.forwarding.watchdog import Guard, Watchdog
from splitpool_router.measuring.trip import clock

_LOST = (aiohttp.ClientError, OSError, RuntimeError)
_TAIL = 4096
# An answer up to this size is read before its head is sent, so that a broken one is still a 502.
_WHOLE = 8 * 2**20

OnFirst = Callable[[Mapping[str, float] | None, float, float], None]

_MESSAGES = {
    "worker_lost": "the worker was lost while it answered; send the request again",
    "worker_timeout": "the worker stopped sending; send the request again",
    "shutting_down": "the router is shutting down; send the request again",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Relayed:
    """An answer that was passed on: how it ended, and its last bytes."""

    response: web.StreamResponse
    reason: str
    tail: bytes


class Relay:
    """Passes answers on; the watchdog ends those that stand still."""

    def __init__(self, watchdog: Watchdog, *, stall_limit: float) -> None:
        self._watchdog = watchdog
        self._stall_limit = stall_limit

    async def pass_on(
        self,
        request: web.Request,
        answer: aiohttp.ClientResponse,
        *,
        ours: Mapping[str, str],
        idle_limit: float,
        on_first: OnFirst,
    ) -> Relayed:
        """The whole answer, events or not; leaving closes the worker's connection at once."""
        guard = Guard(
            idle_limit=idle_limit,
            stall_limit=self._stall_limit,
            on_idle=answer.close,
            on_stall=lambda: _abort(request),
        )
        headers = downstream(answer.headers, ours=ours)
        try:
            with self._watchdog.watch(guard):
                if answer.content_type == "text/event-stream":
                    return await _events(request, answer, headers, guard, on_first)
                return await _body(request, answer, headers, guard)
        finally:
            answer.close()


async def _events(
    request: web.Request,
    answer: aiohttp.ClientResponse,
    headers: CIMultiDict[str],
    guard: Guard,
    on_first: OnFirst,
) -> Relayed:
    headers["Cache-Control"] = "no-cache"
    headers["X-Accel-Buffering"] = "no"
    out = web.StreamResponse(status=answer.status, headers=headers)
    await out.prepare(request)
    borders = Borders()
    tail = await _until_first(answer.content, out, guard, borders, on_first)
    if tail is not None:
        tail = await _after_first(answer.content, out, guard, borders, tail)
    if tail is None or not ended(tail):
        guard.writing = True
        await out.write(error_event(_MESSAGES[guard.reason], code=guard.reason))
        await out.write_eof()
        return Relayed(response=out, reason=guard.reason, tail=b"")
    await out.write_eof()
    reason = "worker_error" if failed(tail) else "ok"
    return Relayed(response=out, reason=reason, tail=tail)


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
        except _LOST:
            return None
        arrived = clock()
        if not chunk:
            return tail
        guard.ticks += 1
        part = borders.feed(first.feed(chunk))
        if not part:
            continue
        tail = (tail + part)[-_TAIL:]
        guard.writing = True
        writing = clock()
        await out.write(part)
        if first.found:
            on_first(first.times, arrived, writing)
            return tail


async def _after_first(
    reader: aiohttp.StreamReader,
    out: web.StreamResponse,
    guard: Guard,
    borders: Borders,
    tail: bytes,
) -> bytes | None:
    """Copies the rest; the path of every token, so it only looks for the ends of events."""
    before, last = b"", tail
    while True:
        guard.writing = False
        try:
            chunk = await reader.readany()
        except _LOST:
            return None if not ended(before + last) else (before + last)[-_TAIL:]
        if not chunk:
            return (before + last)[-_TAIL:]
        guard.ticks += 1
        part = borders.feed(chunk)
        if part:
            before, last = last, part
            guard.writing = True
            await out.write(part)


async def _body(
    request: web.Request,
    answer: aiohttp.ClientResponse,
    headers: CIMultiDict[str],
    guard: Guard,
) -> Relayed:
    parts: list[bytes] = []
    size = 0
    while size <= _WHOLE:
        try:
            chunk = await answer.content.readany()
        except _LOST as error:
            raise WorkerBroke("the worker was lost while it answered", retry_after=1) from error
        if not chunk:
            body = b"".join(parts)
            response = web.Response(status=answer.status, headers=headers, body=body or None)
            return Relayed(response=response, reason=_reason(answer.status), tail=body[-_TAIL:])
        guard.ticks += 1
        parts.append(chunk)
        size += len(chunk)
    return await _large_body(request, answer, headers, guard, b"".join(parts))


async def _large_body(
    request: web.Request,
    answer: aiohttp.ClientResponse,
    headers: CIMultiDict[str],
    guard: Guard,
    start: bytes,
) -> Relayed:
    out = web.StreamResponse(status=answer.status, headers=headers)
    out.content_length = answer.content_length
    await out.prepare(request)
    chunk = start
    tail = b""
    while chunk:
        guard.writing = True
        await out.write(chunk)
        tail = (tail + chunk)[-_TAIL:]
        guard.writing = False
        try:
            chunk = await answer.content.readany()
        except _LOST:
            # The head is out: only a torn connection tells the client that this is not all.
            _abort(request)
            return Relayed(response=out, reason="worker_lost", tail=b"")
        guard.ticks += 1
    await out.write_eof()
    return Relayed(response=out, reason=_reason(answer.status), tail=tail)


def _reason(status: int) -> str:
    return "ok" if status < 400 else "worker_status"


def _abort(request: web.Request) -> None:
    if request.transport is not None:
        request.transport.abort()
