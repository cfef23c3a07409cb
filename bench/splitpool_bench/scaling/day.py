"""When do requests come over a day? Slow by night, busy by day, with bursts; fixed by a seed."""

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass

DAY_SECONDS = 86_400


@dataclass(frozen=True, slots=True, kw_only=True)
class Burst:
    """More requests a second for a while."""

    start: float
    seconds: float
    rate: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """Requests a second: least by night, most by day, and some bursts on top."""

    least: float = 0.5
    most: float = 7.0
    bursts: int = 24
    burst_rate: float = 6.0
    seconds: int = DAY_SECONDS

    def arrivals(self, seed: int) -> list[float]:
        """A Poisson process of that rate, in order."""
        rng = random.Random(seed)
        bursts = [*self._bursts(rng)]
        ceiling = self.most + sum(sorted((each.rate for each in bursts), reverse=True)[:3])
        now, result = 0.0, []
        while (now := now + rng.expovariate(ceiling)) < self.seconds:
            # Thinning: as many are kept as the rate of this moment asks for.
            if rng.random() * ceiling < self.rate(now, bursts):
                result.append(now)
        return result

    def rate(self, at: float, bursts: list[Burst]) -> float:
        """Requests a second at that moment."""
        day = (1 - math.cos(2 * math.pi * at / DAY_SECONDS)) / 2
        extra = sum(each.rate for each in bursts if 0 <= at - each.start < each.seconds)
        return self.least + (self.most - self.least) * day + extra

    def _bursts(self, rng: random.Random) -> Iterator[Burst]:
        for _ in range(self.bursts):
            yield Burst(
                start=rng.uniform(0, self.seconds),
                seconds=rng.uniform(60, 900),
                rate=rng.uniform(0.3, 1) * self.burst_rate,
            )
