"""Routes of resumable streams: go on reading one, or stop it."""

import re

from aiohttp import web

from splitpool_worker.api.connection import HEADERS, Connection
from splitpool_worker.api.errors import ApiError, invalid, stream_deleted
from splitpool_worker.api.headers import caller_of
from splitpool_worker.api.ring import NotThere, Position, StreamGone
from splitpool_worker.api.service import SERVICE, Service
from splitpool_worker.api.streams import NothingLeft, Stream


async def read(request: web.Request) -> web.StreamResponse:
    """The events after a number or after a count of tokens, then what is still to come."""
    service = request.app[SERVICE]
    stream = _find(request, service)
    if stream.deleted or not stream.resumable:
        raise _not_found(request)
    try:
        position = _position(request, stream)
    except NothingLeft:
        return web.Response(status=204)
    headers = HEADERS | {"X-Splitpool-Stream-Id": stream.id}
    response = web.StreamResponse(headers=headers)
    connection = Connection(stream, position, service.intervals)
    try:
        await connection.pump(request, response)
    finally:
        stream.detach(connection.reader, service.clock())
    return response


async def delete(request: web.Request) -> web.Response:
    """Stop a stream; the engine drops it within one step. May be repeated."""
    service = request.app[SERVICE]
    stream = _find(request, service)
    if stream.source is not None:
        stream.source.fail(stream_deleted())
    stream.delete()
    return web.Response(status=204)


def _find(request: web.Request, service: Service) -> Stream:
    stream = service.streams.find(request.match_info["id"], caller_of(request))
    if stream is None:
        raise _not_found(request)
    return stream


def _not_found(request: web.Request) -> ApiError:
    return ApiError(
        404,
        "stream_not_found",
        "There is no such stream: it never was, its window has closed, it cannot be resumed, or "
        "it belongs to another caller.",
    )


def _position(request: web.Request, stream: Stream) -> Position:
    """Where the reader goes on. Raises NothingLeft, ApiError."""
    known = [
        _integer("starting_after", request.query.get("starting_after")),
        _integer("Last-Event-ID", request.headers.get("Last-Event-ID")),
    ]
    after = max((number for number in known if number is not None), default=None)
    received = _integer("received_tokens", request.query.get("received_tokens"))
    try:
        return stream.position(after=after, received=received)
    except NotThere as error:
        raise invalid(
            "starting_after" if received is None else "received_tokens",
            f"the stream has not come to that point: {stream.ring.end} events and "
            f"{stream.ring.tokens} tokens so far",
        ) from error
    except StreamGone as error:
        raise ApiError(
            410,
            "events_expired",
            f"Events before number {stream.ring.start} are no longer kept; send the request again.",
        ) from error


def _integer(name: str, text: str | None) -> int | None:
    if text is None or text == "":
        return None
    if not re.fullmatch(r"[0-9]{1,18}", text):
        raise invalid(name, f"{name} is {text[:40]!r}: it must be a whole number from 0 on")
    return int(text)
