"""The newest events of a stream, numbered, within a bound of bytes."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

EVENT_OVERHEAD_BYTES = 256
# A reader may be behind by so much, be the ring ever so small.
MAX_UNREAD_BYTES = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Bytes that go out together. `tokens` counts the answer's tokens up to its end."""

    data: bytes
    tokens: int = 0
    first: bool = False  # carries the first token
    rest: Callable[[int], bytes] | None = None  # this event without the tokens up to a count

    @property
    def size(self) -> int:
        """Bytes charged to the ring; what `rest` keeps alive is about the event again."""
        return EVENT_OVERHEAD_BYTES + len(self.data) * (1 if self.rest is None else 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """Where a reader goes on: event number `seq`, without its tokens up to `tokens`."""

    seq: int = 0
    tokens: int = 0


class StreamGone(Exception):
    """What the reader asks for fell out of the ring."""


class NotThere(Exception):
    """The reader claims more than the stream has."""


class Ring:
    """The newest events of one stream: at most `limit` bytes of them, and never fewer than one.

    What the reader has not had yet may exceed that, up to MAX_UNREAD_BYTES.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._events: deque[Event] = deque()
        self.bytes = 0
        self.start = 0
        self._tokens_before = 0

    @property
    def end(self) -> int:
        """Number of the event that comes next."""
        return self.start + len(self._events)

    @property
    def tokens(self) -> int:
        """Tokens of the answer up to the newest event."""
        return self._events[-1].tokens if self._events else self._tokens_before

    def append(self, event: Event, read: int | None = None) -> None:
        """Add an event. `read` is how many the reader has had; None: there is no reader."""
        self._events.append(event)
        self.bytes += event.size
        self.trim(read)

    def trim(self, read: int | None = None) -> None:
        """Let the oldest events fall out where there is no room."""
        while self.bytes > self._limit and len(self._events) > 1:
            unread = read is not None and self.start >= read
            if unread and self.bytes <= MAX_UNREAD_BYTES:
                return
            self.drop_oldest()

    def clear(self) -> None:
        """Forget all events."""
        self.forget(self.end)

    def forget(self, seq: int) -> None:
        """Forget the events before number `seq`."""
        while self._events and self.start < seq:
            self.drop_oldest()

    def drop_oldest(self) -> None:
        """Forget the oldest event."""
        event = self._events.popleft()
        self.bytes -= event.size
        self.start += 1
        self._tokens_before = event.tokens

    def get(self, position: Position) -> Event | None:
        """The event at `position`; None when it has not come yet. Raises StreamGone."""
        if position.seq < self.start:
            raise StreamGone
        if position.seq >= self.end:
            return None
        return self._events[position.seq - self.start]

    def after_tokens(self, received: int) -> Position:
        """Where a reader goes on that has the text of `received` tokens. Raises StreamGone."""
        if received > self.tokens:
            raise NotThere
        if received == 0:
            return Position()
        if received < self._tokens_before:
            raise StreamGone
        if received == self._tokens_before:
            return Position(seq=self.start)
        index = next(i for i, event in enumerate(self._events) if event.tokens >= received)
        seq = self.start + index
        whole = self._events[index].tokens == received
        return Position(seq=seq + 1) if whole else Position(seq=seq, tokens=received)
