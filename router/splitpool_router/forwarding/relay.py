"""Passes a worker's answer on to the client: events as they come, anything else in one piece."""

from collections.abc import Mapping
from dataclasses import dataclass

import aiohttp
from aiohttp import web
from multidict import CIMultiDict

from splitpool_router.errors import WorkerBroke, error_event
from splitpool_router.forwarding.copying import LOST, TAIL, OnFirst, copied
from splitpool_router.forwarding.headers import downstream
from splitpool_router.forwarding.sse import failed
from splitpool_router.forwarding.watchdog import Guard, Watchdog

# An answer up to this size is read before its head is sent, so that a broken one is still a 502.
_WHOLE = 8 * 2**20

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
        self._watchdog.watch(guard)
        try:
            if answer.content_type == "text/event-stream":
                return await _events(request, answer, headers, guard, on_first)
            return await _body(request, answer, headers, guard)
        finally:
            self._watchdog.leave(guard)
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
    tail = await copied(answer.content, out, guard, on_first)
    if tail is None:
        guard.writing = True
        await out.write(error_event(_MESSAGES[guard.reason], code=guard.reason))
        await out.write_eof()
        return Relayed(response=out, reason=guard.reason, tail=b"")
    await out.write_eof()
    reason = "worker_error" if failed(tail) else "ok"
    return Relayed(response=out, reason=reason, tail=tail)


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
        except LOST as error:
            raise WorkerBroke("the worker was lost while it answered", retry_after=1) from error
        if not chunk:
            body = b"".join(parts)
            response = web.Response(status=answer.status, headers=headers, body=body or None)
            return Relayed(response=response, reason=_reason(answer.status), tail=body[-TAIL:])
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
        tail = (tail + chunk)[-TAIL:]
        guard.writing = False
        try:
            chunk = await answer.content.readany()
        except LOST:
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
