"""Did a figure grow while a load lasted? The last third against the one before it. Pure.

The first third is left out: caches fill and heaps find their size in it. What is left is cut into
equal spans, and each stands for itself by the median of its samples, so that a few slow moments
count for nothing. The growth is the ratio of both thirds' medians over their spans; its interval
comes from a bootstrap over the spans, since samples within one are not independent.
"""

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from splitpool_bench.stats import quantile

SPANS = 20  # a third
ROUNDS = 2000

Sample = tuple[float, float]  # when, how much


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """Last third / second third, and its 95 % interval; NaN where a third has no samples."""

    ratio: float
    low: float
    high: float

    def beyond(self, limit: float) -> bool:
        """Whether it is more than `limit`, and surely growth. NaN is beyond everything."""
        return not (self.ratio <= limit or self.low <= 1)


def growth(samples: Iterable[Sample], began: float, ended: float, seed: int = 0) -> Growth:
    """Of samples between two readings of their clock."""
    third = (ended - began) / 3
    kept = list(samples)
    second = spans(kept, began + third, ended - third)
    last = spans(kept, ended - third, ended)
    if not second or not last:
        return Growth(ratio=float("nan"), low=float("nan"), high=float("nan"))
    rng = random.Random(seed)
    drawn = [
        median(rng.choices(last, k=len(last))) / median(rng.choices(second, k=len(second)))
        for _ in range(ROUNDS)
    ]
    return Growth(
        ratio=median(last) / median(second),
        low=quantile(drawn, 0.025),
        high=quantile(drawn, 0.975),
    )


def spans(samples: Iterable[Sample], began: float, ended: float) -> list[float]:
    """The median of each span that has samples."""
    found: dict[int, list[float]] = {}
    for when, value in samples:
        if began <= when < ended:
            found.setdefault(int((when - began) / (ended - began) * SPANS), []).append(value)
    return [median(values) for values in found.values()]


def like_for_like(samples: Mapping[int, Sequence[Sample]]) -> list[Sample]:
    """Samples of different kinds, each divided by the median of its kind: comparable figures."""
    return [
        (when, value / usual)
        for kind in samples.values()
        if (usual := median(value for _, value in kind)) > 0
        for when, value in kind
    ]
