"""Which is the highest rate at which the targets are kept? Doubled until it fails, then halved in.

The search is pure: `Search.rate` says what to try next, and `tried` takes the verdict.
"""

import math
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from splitpool_bench.measuring.figures import missed
from splitpool_bench.measuring.options import Targets
from splitpool_bench.measuring.point import Point
from splitpool_bench.measuring.timeline import backlog_grows

LEAST_RATE = 0.01
MOST_PROBES = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """A rate that was tried, and why it does not count, or None where it does."""

    rate: float
    failure: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The highest rate that kept the targets, or None where no rate did."""

    rate: float | None
    above: float | None
    """The lowest rate that did not; None where even the highest that was tried did."""
    probes: Sequence[Probe]


@dataclass(slots=True, kw_only=True)
class Search:
    """Brackets the highest rate that passes, then narrows the bracket to `precision`."""

    first: float
    precision: float
    passed: float | None = None
    failed: float | None = None
    probes: list[Probe] = field(default_factory=list)

    @property
    def rate(self) -> float | None:
        """What to try next; None at the end."""
        if len(self.probes) >= MOST_PROBES:
            return None
        if self.passed is None:
            lower = self.first if self.failed is None else self.failed / 2
            return lower if lower >= LEAST_RATE else None
        if self.failed is None:
            return self.passed * 2
        if self.failed / self.passed <= 1 + self.precision:
            return None
        return math.sqrt(self.passed * self.failed)

    def tried(self, probe: Probe) -> None:
        """What came of a rate."""
        self.probes.append(probe)
        if probe.failure is None:
            self.passed = probe.rate
        else:
            self.failed = probe.rate

    @property
    def found(self) -> Found:
        """What is known so far."""
        return Found(rate=self.passed, above=self.failed, probes=tuple(self.probes))


async def search(
    state: Search, run: Callable[[float], Awaitable[Point]], judge: Callable[[Point], str | None]
) -> None:
    """Run one point after the other until the search ends; `state` knows all that was found."""
    while (rate := state.rate) is not None:
        state.tried(Probe(rate=rate, failure=judge(await run(rate))))


def why_not(point: Point, targets: Targets, latency_class: str) -> str | None:
    """Why a rate does not count as served within the targets; None where it does."""
    mine = [each for each in point.outcomes if each.latency_class == latency_class]
    if said := missed(mine, targets):
        return said
    if backlog_grows(point.outcomes, point.began, point.last_start):
        return "the backlog grows: longer at this rate, and the targets would be missed"
    return None
