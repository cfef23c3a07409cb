"""Which streams live, who may read them, from where and for how long.

A resumable stream is kept for a window that runs from the disconnect of its reader or from its end,
whichever is later. Times are passed in; nothing here waits.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

from splitpool_worker.api.errors import ApiError
from splitpool_worker.api.ring import Event, NotThere, Position, Ring, StreamGone


class NothingLeft(Exception):
    """The reader has the last event already."""


class Duplicate(Exception):
    """A live stream has this request id."""


class Source(Protocol):
    """What makes the events of a stream."""

    def set_orphan(self, orphan: bool) -> None: ...

    def fail(self, error: ApiError) -> None: ...


@dataclass(slots=True, kw_only=True, eq=False)
class Stream:
    """One answer being streamed."""

    id: str
    owner: str
    request_id: str
    resumable: bool
    ring: Ring
    source: Source | None = None
    ended: bool = False
    failed: bytes | None = None  # the error that ended it; it has no number
    deleted: bool = False
    expires: float | None = None
    reader: "Reader | None" = None
    detached_at: float | None = None
    ended_at: float | None = None

    def append(self, event: Event) -> None:
        """Add an event and tell the reader."""
        self.ring.append(event, None if self.reader is None else self.reader.position.seq)
        self._wake()

    def end(self, now: float, failed: bytes | None = None) -> None:
        """No event follows; the first end counts."""
        if self.ended:
            return
        self.ended, self.failed, self.ended_at = True, failed, now
        self._wake()

    def delete(self) -> None:
        """Forget its events; who reads it now may still see how it ended."""
        self.deleted = True
        if self.reader is None:
            self.ring.clear()

    def attach(self, position: Position, wake: Callable[[], None]) -> "Reader":
        """A new reader; it replaces the one before."""
        previous, self.reader = self.reader, Reader(stream=self, position=position, wake=wake)
        self._tell(orphan=False)
        if previous is not None:
            previous.replaced = True
            previous.wake()
        return self.reader

    def detach(self, reader: "Reader", now: float) -> bool:
        """The reader left. True when it was the current one: the window begins."""
        if self.reader is not reader:
            return False
        self.reader, self.detached_at = None, now
        self.ring.trim()
        if self.deleted:
            self.ring.clear()
        self._tell(orphan=True)
        return True

    def expires_at(self, window: float) -> float | None:
        """When the window closes; None while somebody reads."""
        if self.reader is not None or self.detached_at is None:
            return None
        return max(self.detached_at, self.ended_at or 0.0) + window

    def position(self, *, after: int | None, received: int | None) -> Position:
        """Where to go on after event `after` or `received` tokens, whichever is further."""
        if after is not None and after >= self.ring.end:
            raise NotThere
        found = Position(seq=0 if after is None else after + 1)
        if received is not None:
            by_tokens = self.ring.after_tokens(received)
            found = by_tokens if by_tokens.seq >= found.seq else found
        if self.ended and self.failed is None and found.seq >= self.ring.end:
            raise NothingLeft
        if found.seq < self.ring.start:
            raise StreamGone
        return found

    @property
    def overrun(self) -> bool:
        """Its reader is so slow that events fell out that it has not had."""
        return self.reader is not None and self.reader.position.seq < self.ring.start

    def _tell(self, *, orphan: bool) -> None:
        if self.source is not None and self.resumable:
            self.source.set_orphan(orphan)

    def _wake(self) -> None:
        if self.reader is not None:
            self.reader.wake()


@dataclass(slots=True, kw_only=True, eq=False)
class Reader:
    """One connection that reads a stream, event by event."""

    stream: Stream
    position: Position
    wake: Callable[[], None]
    replaced: bool = False

    def take(self) -> tuple[Event, bytes] | None:
        """The next event and the bytes that are left of it; None when there is none now.
        Raises StreamGone."""
        position, ring = self.position, self.stream.ring
        event = ring.get(position)
        if event is None:
            return None
        cut = position.tokens and event.rest is not None
        data = event.rest(position.tokens) if cut and event.rest else event.data
        self.position = Position(seq=position.seq + 1)
        if self.stream.resumable:
            ring.trim(self.position.seq)
        else:
            ring.forget(self.position.seq)
        return event, data

    @property
    def finished(self) -> bool:
        """Nothing more will come."""
        return self.stream.ended and self.position.seq >= self.stream.ring.end


@dataclass(slots=True, kw_only=True)
class Registry:
    """All streams of this worker, by id and by their callers' own request ids."""

    window: float
    ring_bytes: int
    total_bytes: int
    _streams: dict[str, Stream] = field(default_factory=dict)
    _by_request: dict[tuple[str, str], Stream] = field(default_factory=dict)

    def __iter__(self) -> Iterator[Stream]:
        return iter(list(self._streams.values()))

    @property
    def bytes(self) -> int:
        """Bytes that all rings hold."""
        return sum(stream.ring.bytes for stream in self._streams.values())

    def open(self, *, id: str, owner: str, request_id: str, resumable: bool) -> Stream:
        """A new stream. Raises Duplicate when a live resumable one has the same request id."""
        other = self._by_request.get((owner, request_id))
        if resumable and other is not None and other.resumable and not other.ended:
            raise Duplicate
        stream = Stream(
            id=id,
            owner=owner,
            request_id=request_id,
            resumable=resumable,
            ring=Ring(self.ring_bytes),
        )
        self._streams[id] = self._by_request[owner, request_id] = stream
        return stream

    def find(self, key: str, owner: str) -> Stream | None:
        """The caller's stream of that id or of that request id of its own."""
        stream = self._streams.get(key) or self._by_request.get((owner, key))
        return stream if stream is not None and stream.owner == owner else None

    def discard(self, stream: Stream) -> None:
        """Forget a stream."""
        self._streams.pop(stream.id, None)
        if self._by_request.get((stream.owner, stream.request_id)) is stream:
            del self._by_request[stream.owner, stream.request_id]

    def sweep(self, now: float) -> list[Stream]:
        """Forget the streams whose window has closed; what is returned is to be aborted: those of
        them that still run, and those whose reader is hopelessly slow and cannot resume."""
        closed = [stream for stream in self if _closed(stream, self.window, now)]
        for stream in closed + self._surplus(closed):
            self.discard(stream)
        overrun = [stream for stream in self if stream.overrun and not stream.resumable]
        return [stream for stream in closed + overrun if not stream.ended]

    def _surplus(self, closed: list[Stream]) -> list[Stream]:
        """Ended streams nobody reads, oldest first, that exceed the memory of all."""
        excess = self.bytes - sum(stream.ring.bytes for stream in closed) - self.total_bytes
        idle = [s for s in self if s.ended and s.reader is None and s not in closed]
        surplus: list[Stream] = []
        for stream in sorted(idle, key=lambda s: s.ended_at or 0.0):
            if excess <= 0:
                break
            surplus.append(stream)
            excess -= stream.ring.bytes
        return surplus


def _closed(stream: Stream, window: float, now: float) -> bool:
    expires = stream.expires_at(window)
    return expires is not None and now >= expires
