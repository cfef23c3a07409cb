"""How many workers does a rule want now? Ours, and that of the HorizontalPodAutoscaler."""

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from splitpool_bench.scaling.alert import Alert
from splitpool_bench.scaling.pool import Pool
from splitpool_bench.stats import quantile
from splitpool_operator.autoscaling.law import decide
from splitpool_operator.autoscaling.signals import Signals
from splitpool_operator.autoscaling.state import Limits, Outgrown, Pace, Scene, Situation

# Between two looks: the operator's and the HPA's alike.
LOOK_SECONDS = 15


class Policy(Protocol):
    """Is asked every LOOK_SECONDS."""

    def wanted(self, pool: Pool) -> int:
        """Replicas."""


@dataclass(slots=True)
class Fixed:
    """Always the same."""

    replicas: int

    def wanted(self, pool: Pool) -> int:
        """Replicas."""
        return self.replicas


@dataclass(slots=True)
class Law:
    """The operator's control law, on the alert and the signals that Prometheus would show it."""

    limits: Limits
    pace: Pace = field(default_factory=Pace)
    alert: Alert = field(default_factory=Alert)
    _scaled: float | None = None
    _outgrown: Outgrown | None = None
    _past: deque[tuple[bool, float, float, float]] = field(default_factory=deque)

    def wanted(self, pool: Pool) -> int:
        """Replicas."""
        now = Situation(
            limits=self.limits,
            replicas=len(pool.replicas),
            ready=pool.ready,
            start=pool.worker.start,
            scaled=None if self._scaled is None else pool.now - self._scaled,
            outgrown=self._outgrown,
            slots=pool.worker.slots,
            signals=self._signals(pool),
            target=pool.target,
        )
        room = (0,) * (self.limits.high + 1)
        move = decide(Scene(interactive=now, batch=None, room=room), self.pace).interactive
        if move.replicas != now.replicas:
            self._scaled = pool.now
            self._outgrown = move.outgrown or self._outgrown
        return move.replicas

    def _signals(self, pool: Pool) -> Signals:
        counts, now = pool.counts, int(pool.now)
        window = slice(max(0, now - int(self.pace.window)), now)
        hits, misses = sum(counts.hits[window]), sum(counts.misses[window])
        waits = [wait for each in counts.waits[window] for wait in each]
        rate = (hits + misses) / self.pace.window
        firing = self.alert.evaluate(counts, pool.now)
        self._past.append((firing, rate, len(pool.waiting), pool.running))
        while len(self._past) > self.pace.quiet / LOOK_SECONDS:
            self._past.popleft()
        fired, rates, waiting, running = zip(*self._past, strict=True)
        return Signals(
            age=1.0,
            observed=len(self._past) * LOOK_SECONDS,
            firing=firing,
            fired=any(fired),
            rate=rate,
            within=hits / self.pace.window,
            peak_rate=max(rates),
            refused=sum(counts.refused[window]) / self.pace.window,
            queue=quantile(waits, 0.99) if waits else None,
            service=pool.worker.prefill if waits else None,
            waiting=len(pool.waiting),
            peak_waiting=max(waiting),
            running=pool.running,
            peak_running=max(running),
        )


@dataclass(slots=True)
class Hpa:
    """autoscaling/v2 with its defaults: a tolerance of 10 %, at most twice as many or four more
    every 15 s, and the most that was wanted within 5 minutes before fewer are taken.

    ratio: the metric over its target.
    """

    limits: Limits
    ratio: Callable[[Pool], float | None]
    stabilization: float = 300.0
    tolerance: float = 0.1
    _wanted: deque[tuple[float, int]] = field(default_factory=deque)

    def wanted(self, pool: Pool) -> int:
        """Replicas."""
        now = len(pool.replicas)
        proposed = self._proposed(pool, now)
        self._wanted.append((pool.now, proposed))
        while self._wanted[0][0] <= pool.now - self.stabilization:
            self._wanted.popleft()
        if proposed < now:
            proposed = min(now, max(each for _, each in self._wanted))
        most = max(2 * now, now + 4)
        return min(max(proposed, self.limits.low), self.limits.high, most)

    def _proposed(self, pool: Pool, now: int) -> int:
        ratio = self.ratio(pool)
        if ratio is None or abs(ratio - 1) <= self.tolerance:
            return now
        return math.ceil(ratio * now)


def by_load(per_worker: float) -> Callable[[Pool], float | None]:
    """Requests that run or wait, of each worker, over so many."""

    def ratio(pool: Pool) -> float | None:
        return (pool.running + len(pool.waiting)) / len(pool.replicas) / per_worker

    return ratio


def by_ttft(window: int = 120) -> Callable[[Pool], float | None]:
    """TTFT p99 over its target; None where nothing was served."""

    def ratio(pool: Pool) -> float | None:
        now = int(pool.now)
        waits = [wait for each in pool.counts.waits[max(0, now - window) : now] for wait in each]
        return (quantile(waits, 0.99) + pool.worker.prefill) / pool.target if waits else None

    return ratio
