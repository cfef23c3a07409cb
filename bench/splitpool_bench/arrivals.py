"""When the requests of an open loop start: offsets in seconds, fixed before the first is sent."""

import random


def constant(rate: float, count: int) -> list[float]:
    """`count` starts, `rate` a second, the first at 0."""
    _require_rate(rate)
    return [index / rate for index in range(count)]


def poisson(rate: float, count: int, seed: int) -> list[float]:
    """`count` starts with exponential gaps of mean 1 / `rate`; a seed gives the same ones."""
    _require_rate(rate)
    rng = random.Random(seed)
    offsets: list[float] = []
    now = 0.0
    for _ in range(count):
        now += rng.expovariate(rate)
        offsets.append(now)
    return offsets


def _require_rate(rate: float) -> None:
    if not rate > 0:
        raise ValueError(f"rate is {rate}; it must be more than 0 requests a second")
