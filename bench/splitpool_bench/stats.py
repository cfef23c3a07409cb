"""Quantiles of a sample, and how far they can be trusted."""

import math
import random
from collections.abc import Callable, Sequence

Statistic = Callable[[Sequence[float]], float]


def quantile(values: Sequence[float], q: float) -> float:
    """The q-quantile by linear interpolation between order statistics; NaN of nothing."""
    if not 0 <= q <= 1:
        raise ValueError(f"quantile {q} is outside 0..1")
    if not values:
        return math.nan
    ordered = sorted(values)
    place = q * (len(ordered) - 1)
    low = math.floor(place)
    high = math.ceil(place)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def bootstrap_interval(
    values: Sequence[float],
    statistic: Statistic,
    *,
    seed: int = 0,
    rounds: int = 1000,
    level: float = 0.95,
) -> tuple[float, float]:
    """Percentile bootstrap (Efron) of a statistic; (NaN, NaN) of nothing."""
    if not values:
        return math.nan, math.nan
    rng = random.Random(seed)
    drawn = [statistic(rng.choices(values, k=len(values))) for _ in range(rounds)]
    tail = (1 - level) / 2
    return quantile(drawn, tail), quantile(drawn, 1 - tail)


def p99(values: Sequence[float]) -> float:
    """The 0.99-quantile."""
    return quantile(values, 0.99)
