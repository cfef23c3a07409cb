"""Was the load generator itself the limit? Its starts, its event loop and its processor time."""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Literal

from splitpool_bench.stats import quantile

Limit = Literal["cpu", "late", "lag"]
TICK = 0.02
MOST_CPU = 0.9
# Below this a delay is that of any busy machine; above it must be small beside what is measured.
LEAST_DELAY = 0.005
MOST_SHARE = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Generator:
    """What the load generator cost and how punctual it was; seconds, and cores of processor."""

    late_p99: float
    """Starts after their time; 0 where nothing was due at a time."""
    lag_p99: float
    """How long what was ready to run on the event loop waited."""
    cpu: float

    def limits(self, ttft_p50: float) -> dict[Limit, float]:
        """In what it may have been the limit, and how far; empty where it was fast enough."""
        allowed = max(LEAST_DELAY, MOST_SHARE * ttft_p50)
        found: dict[Limit, tuple[float, float]] = {
            "cpu": (self.cpu, MOST_CPU),
            "late": (self.late_p99, allowed),
            "lag": (self.lag_p99, allowed),
        }
        return {name: seen for name, (seen, limit) in found.items() if seen > limit}


@dataclass(slots=True, kw_only=True)
class Watch:
    """Fills while a load runs."""

    late: list[float] = field(default_factory=list)
    lags: list[float] = field(default_factory=list)
    began: tuple[float, float] = (0.0, 0.0)

    def seen(self) -> Generator:
        """The verdict so far."""
        wall, cpu = time.monotonic() - self.began[0], time.process_time() - self.began[1]
        return Generator(
            late_p99=_p99(self.late), lag_p99=_p99(self.lags), cpu=cpu / wall if wall else 0.0
        )


@asynccontextmanager
async def watching() -> AsyncIterator[Watch]:
    """Watch this process while the block runs."""
    watch = Watch(began=(time.monotonic(), time.process_time()))
    task = asyncio.create_task(_tick(watch))
    try:
        yield watch
    finally:
        task.cancel()


async def _tick(watch: Watch) -> None:
    while True:
        due = time.monotonic() + TICK
        await asyncio.sleep(TICK)
        watch.lags.append(max(0.0, time.monotonic() - due))


def _p99(values: Sequence[float]) -> float:
    return max(0.0, quantile(values, 0.99)) if values else 0.0
