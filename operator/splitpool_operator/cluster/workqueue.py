"""Which pool is to be reconciled next? Each key once, one at a time, failures ever later.

Pure: the time is an argument.
"""

import heapq
from dataclasses import dataclass

Key = tuple[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """Seconds between the attempts at a key that fails again and again."""

    first: float = 0.5
    most: float = 120.0

    def after(self, failures: int) -> float:
        """Doubles with each failure."""
        return float(min(self.most, self.first * 2 ** min(failures - 1, 32)))


class WorkQueue:
    """Keys with the time at which each is due."""

    def __init__(self, backoff: Backoff | None = None) -> None:
        self._backoff = backoff or Backoff()
        self._due: dict[Key, float] = {}
        self._heap: list[tuple[float, Key]] = []
        self._running: set[Key] = set()
        self._failures: dict[Key, int] = {}

    def add(self, key: Key, at: float) -> None:
        """Make a key due, at once with what is there already: the earlier time wins.

        A key that is being worked on becomes due again when it is done.
        """
        if key not in self._due or at < self._due[key]:
            self._due[key] = at
            if key not in self._running:
                heapq.heappush(self._heap, (at, key))

    def take(self, now: float) -> Key | None:
        """The key that is due for longest, which is then being worked on."""
        while self._heap and self._heap[0][0] <= now:
            at, key = heapq.heappop(self._heap)
            if self._due.get(key) == at and key not in self._running:
                del self._due[key]
                self._running.add(key)
                return key
        return None

    def done(self, key: Key) -> None:
        """The key was worked on with success."""
        self._failures.pop(key, None)
        self._finish(key)

    def failed(self, key: Key, now: float, at_least: float = 0.0) -> float:
        """The key is due again after a pause, whose seconds are returned."""
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        pause = max(at_least, self._backoff.after(failures))
        # What was added meanwhile waits too: it would fail as this did.
        self._due[key] = now + pause
        self._finish(key)
        return pause

    def next_at(self) -> float | None:
        """When the next key that nobody works on is due."""
        while self._heap:
            at, key = self._heap[0]
            if self._due.get(key) == at and key not in self._running:
                return at
            heapq.heappop(self._heap)
        return None

    def lateness(self, now: float) -> float:
        """For how many seconds the most overdue key has been due."""
        return max((now - at for at in self._due.values()), default=0.0)

    def __len__(self) -> int:
        return len(self._due)

    def _finish(self, key: Key) -> None:
        self._running.discard(key)
        if key in self._due:
            heapq.heappush(self._heap, (self._due[key], key))
