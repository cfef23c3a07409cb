"""Ends relays that stand still: a client that does not read, a worker that says nothing.

The relay only counts its chunks; one sweeper looks at all of them, so that a token costs no
timer.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(slots=True, kw_only=True, eq=False)
class Guard:
    """One relay: `ticks` grows with every chunk, `writing` says whom it waits for."""

    idle_limit: float
    stall_limit: float
    on_idle: Callable[[], None]
    on_stall: Callable[[], None]
    ticks: int = 0
    writing: bool = False
    seen: tuple[int, bool] = (-1, False)
    since: float = 0.0
    fired: bool = False
    reason: str = "worker_lost"


class Watchdog:
    """The relays that run now."""

    def __init__(self, *, period: float, clock: Callable[[], float]) -> None:
        self._period = period
        self._clock = clock
        self._guards: set[Guard] = set()

    def watch(self, guard: Guard) -> None:
        """Watches a relay until `leave`."""
        guard.since = self._clock()
        self._guards.add(guard)

    def leave(self, guard: Guard) -> None:
        """The relay has ended."""
        self._guards.discard(guard)

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await asyncio.sleep(self._period)
            self.sweep()

    def end_all(self, reason: str) -> None:
        """Ends every relay as if its worker had gone, for this reason."""
        for guard in tuple(self._guards):
            guard.fired = True
            guard.reason = reason
            guard.on_idle()

    def sweep(self) -> None:
        """Fires for every relay that has stood still too long."""
        now = self._clock()
        for guard in tuple(self._guards):
            state = (guard.ticks, guard.writing)
            if state != guard.seen:
                guard.seen = state
                guard.since = now
            elif not guard.fired:
                _fire_when_late(guard, now - guard.since)


def _fire_when_late(guard: Guard, still: float) -> None:
    limit = guard.stall_limit if guard.writing else guard.idle_limit
    if still >= limit:
        guard.fired = True
        guard.reason = "worker_timeout"
        (guard.on_stall if guard.writing else guard.on_idle)()
