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


def quantile_interval(
    values: Sequence[float], q: float, level: float = 0.95
) -> tuple[float, float]:
    """What a percentile bootstrap of the q-quantile tends to, without drawing.

    A resample's k-th order statistic is at most x_(j) with the probability that Binomial(n, j / n)
    is at least k (Hutson and Ernst, "The exact bootstrap mean and variance of an L-estimator",
    2000); the interval's edges are the order statistics at which that passes its tails. Between
    two order statistics it interpolates as `quantile` does. (NaN, NaN) of nothing.
    """
    if not values:
        return math.nan, math.nan
    ordered = sorted(values)
    place = q * (len(ordered) - 1)
    low, share = math.floor(place), place - math.floor(place)
    tail = (1 - level) / 2
    edges = []
    for probability in (tail, 1 - tail):
        below = ordered[_edge(len(ordered), low + 1, probability)]
        above = ordered[_edge(len(ordered), math.ceil(place) + 1, probability)]
        edges.append(below + (above - below) * share)
    return edges[0], edges[1]


def student_t(level: float, freedom: int) -> float:
    """The t that |T| of so many degrees of freedom stays within, with the probability `level`."""
    low, high = 0.0, 1.0
    while _within_t(high, freedom) < level:
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _within_t(middle, freedom) < level else (low, middle)
    return high


def _edge(count: int, order: int, probability: float) -> int:
    """The least index j whose x_(j) a resample's order statistic stays within so probably."""
    low, high = 0, count - 1
    while low < high:
        middle = (low + high) // 2
        if _at_least(count, (middle + 1) / count, order) >= probability:
            high = middle
        else:
            low = middle + 1
    return low


def _at_least(count: int, chance: float, wanted: int) -> float:
    """P(Binomial(count, chance) >= wanted)."""
    if chance >= 1:
        return 1.0
    whole = math.lgamma(count + 1)
    return math.fsum(
        math.exp(
            whole
            - math.lgamma(k + 1)
            - math.lgamma(count - k + 1)
            + k * math.log(chance)
            + (count - k) * math.log1p(-chance)
        )
        for k in range(wanted, count + 1)
    )


def _within_t(t: float, freedom: int) -> float:
    """P(|T| <= t), in closed form (Abramowitz and Stegun, 26.7.3 and 26.7.4)."""
    angle = math.atan(t / math.sqrt(freedom))
    cosine, sine = math.cos(angle), math.sin(angle)
    if freedom % 2:
        term, total = cosine, 0.0
        for k in range(1, freedom - 1, 2):
            total += term
            term *= cosine**2 * (k + 1) / (k + 2)
        return 2 / math.pi * (angle + sine * total)
    term, total = 1.0, 0.0
    for k in range(0, freedom - 1, 2):
        total += term
        term *= cosine**2 * (k + 1) / (k + 2)
    return sine * total
