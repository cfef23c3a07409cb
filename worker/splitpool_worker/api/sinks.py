"""Where an answer's text goes: into numbered events of a stream, or into one whole answer."""

import asyncio
from collections.abc import Callable
from typing import Protocol

from splitpool_worker.api import sse
from splitpool_worker.api.answers import Answer, Delta, Format, dump
from splitpool_worker.api.errors import ApiError
from splitpool_worker.api.generation import Generation
from splitpool_worker.api.ring import Event
from splitpool_worker.api.streams import Stream


class Timer(Protocol):
    """What `asyncio.loop.call_later` returns."""

    def cancel(self) -> None: ...


class WholeSink:
    """Collects the answers of a request that does not stream."""

    def __init__(self, choices: int, loop: asyncio.AbstractEventLoop) -> None:
        self.answers = [Answer() for _ in range(choices)]
        self._ended: asyncio.Future[None] = loop.create_future()

    async def wait(self) -> None:
        """Until all answers are whole. Raises ApiError."""
        await self._ended

    def delta(self, generation: Generation, delta: Delta) -> None:
        answer = self.answers[delta.index]
        answer.parts.append(delta.text)
        answer.logprobs.extend(delta.logprobs)
        answer.finish = delta.finish

    def done(self, generation: Generation) -> None:
        if not self._ended.done():
            self._ended.set_result(None)

    def failed(self, error: ApiError) -> None:
        if not self._ended.done():
            self._ended.set_exception(error)


class StreamSink:
    """Appends events to a stream, one per delta."""

    def __init__(
        self,
        stream: Stream,
        format: Format,
        clock: Callable[[], float],
        *,
        include_usage: bool = False,
        continuous_usage: bool = False,
    ) -> None:
        self._stream = stream
        self._format = format
        self._clock = clock
        self._include_usage = include_usage
        self._continuous_usage = continuous_usage
        self._first = True
        self._tokens = 0

    def open(self, choices: int) -> None:
        """The events before any text."""
        for index in range(choices):
            head = self._format.head(index)
            if head is not None:
                self._append(head)

    def delta(self, generation: Generation, delta: Delta) -> None:
        usage = generation.usage if self._continuous_usage else None
        seq = self._stream.ring.end
        self._tokens = delta.tokens_after

        def rest(received: int) -> bytes:
            return sse.event(seq, self._format.chunk(delta.without(received), usage))

        several = sum(piece.tokens for piece in delta.pieces) > 1
        self._append(
            self._format.chunk(delta, usage),
            first=self._first,
            rest=rest if several and self._stream.resumable else None,
        )
        self._first = False

    def done(self, generation: Generation) -> None:
        if self._include_usage:
            self._append(self._format.usage(generation.usage))
        self._stream.append(Event(data=sse.done(self._stream.ring.end), tokens=self._tokens))
        self._stream.end(self._clock())

    def failed(self, error: ApiError) -> None:
        self._stream.end(self._clock(), sse.error(dump(error.body())))

    def _append(
        self, data: bytes, *, first: bool = False, rest: Callable[[int], bytes] | None = None
    ) -> None:
        event = sse.event(self._stream.ring.end, data)
        self._stream.append(Event(data=event, tokens=self._tokens, first=first, rest=rest))


class GatheringSink:
    """Passes deltas on at most every `interval` seconds, joined; the first and the last at once."""

    def __init__(
        self,
        inner: StreamSink,
        interval: float,
        clock: Callable[[], float],
        later: Callable[[float, Callable[[], None]], Timer],
    ) -> None:
        self._inner = inner
        self._interval = interval
        self._clock = clock
        self._later = later
        self._pending: dict[int, Delta] = {}
        self._next = 0.0
        self._timer: Timer | None = None
        self._generation: Generation | None = None

    def delta(self, generation: Generation, delta: Delta) -> None:
        self._generation = generation
        earlier = self._pending.pop(delta.index, None)
        self._pending[delta.index] = delta if earlier is None else earlier.joined(delta)
        wait = self._next - self._clock()
        if wait <= 0:
            self._flush()
        elif self._timer is None:
            self._timer = self._later(wait, self._flush)

    def done(self, generation: Generation) -> None:
        self._flush()
        self._inner.done(generation)

    def failed(self, error: ApiError) -> None:
        self._flush()
        self._inner.failed(error)

    def _flush(self) -> None:
        self._cancel()
        if self._generation is not None:
            for delta in self._pending.values():
                self._inner.delta(self._generation, delta)
        self._pending.clear()
        self._next = self._clock() + self._interval

    def _cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
