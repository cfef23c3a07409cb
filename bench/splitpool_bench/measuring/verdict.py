"""Is one server better than another, or is there no difference? From paired repeats. Pure.

Each repeat gives both servers the same arrivals and lengths, so the ratio B / A of a pair is free
of what they share. The logarithms of the ratios get a Student interval; where that holds 0 there
is no difference. All figures together are wrong about that in at most 5 % of all comparisons: each
has its share of the error (Bonferroni).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean, median, stdev

from splitpool_bench.measuring.figures import Figures, figures
from splitpool_bench.measuring.point import Point
from splitpool_bench.stats import student_t

ERROR = 0.05
VAGUE = 0.25
MOST_SAID = 10.0  # an interval without any meaning needs no six digits


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A figure that is compared."""

    name: str
    unit: str
    lower_is_better: bool
    of: Callable[[Point], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One figure of both servers: every repeat, and the ratio B / A with its interval."""

    name: str
    unit: str
    lower_is_better: bool
    a: Sequence[float]
    b: Sequence[float]
    ratio: float
    interval: tuple[float, float]

    @property
    def differ(self) -> bool:
        """Whether the interval leaves 1 out."""
        low, high = self.interval
        return low > 1 or high < 1

    @property
    def hidden(self) -> float:
        """The largest change in either direction that the interval still allows."""
        low, high = self.interval
        return max(high - 1, 1 / low - 1)

    @property
    def vague(self) -> bool:
        """Whether a change that matters could hide in the interval."""
        return not self.differ and self.hidden > VAGUE

    @property
    def said(self) -> str:
        """The verdict in words."""
        if math.isnan(self.ratio):
            return "not measured"
        low, high = self.interval
        if not self.differ:
            shown = f"{min(self.hidden, MOST_SAID):.0%} and more would show"
            return (
                f"no difference seen, but only {shown}"
                if self.vague
                else (f"no difference ({shown})")
            )
        better = (self.ratio < 1) == self.lower_is_better
        way = "lower" if self.ratio < 1 else "higher"
        low_by, high_by = sorted((abs(low - 1), abs(high - 1)))
        return (
            f"B is {abs(self.ratio - 1):.0%} {way}, {'better' if better else 'worse'} "
            f"({low_by:.0%} to {high_by:.0%})"
        )


def _ms(value: Callable[[Figures], float]) -> Callable[[Point], float]:
    return lambda point: value(figures(point.outcomes, "", "")) * 1000


def _time(name: str, value: Callable[[Figures], float]) -> Kind:
    return Kind(name=name, unit="ms", lower_is_better=True, of=_ms(value))


KINDS = (
    _time("TTFT p50", lambda found: found.ttft.p50),
    _time("TTFT p99", lambda found: found.ttft.p99),
    _time("TPOT p50", lambda found: found.tpot.p50),
    _time("e2e p50", lambda found: found.e2e.p50),
    Kind(
        name="output",
        unit="tokens/s",
        lower_is_better=False,
        of=lambda point: point.output_tokens_per_second,
    ),
)


def compare(a: Sequence[Point], b: Sequence[Point]) -> list[Comparison]:
    """Every figure of the pairs that both servers have."""
    pairs = min(len(a), len(b))
    return [
        judge(kind, [kind.of(p) for p in a[:pairs]], [kind.of(p) for p in b[:pairs]])
        for kind in KINDS
    ]


def judge(kind: Kind, a: Sequence[float], b: Sequence[float]) -> Comparison:
    """One figure; with fewer than 2 pairs, or where one is missing, nothing is said."""
    nothing = float("nan")
    ratio, interval = nothing, (nothing, nothing)
    if len(a) >= 2 and all(value > 0 for value in (*a, *b)):  # NaN is not
        logs = [math.log(second / first) for first, second in zip(a, b, strict=True)]
        reach = student_t(1 - ERROR / len(KINDS), len(logs) - 1) * stdev(logs)
        reach /= math.sqrt(len(logs))
        middle = fmean(logs)
        ratio, interval = math.exp(middle), (math.exp(middle - reach), math.exp(middle + reach))
    return Comparison(
        name=kind.name,
        unit=kind.unit,
        lower_is_better=kind.lower_is_better,
        a=tuple(a),
        b=tuple(b),
        ratio=ratio,
        interval=interval,
    )


def verdict(comparisons: Sequence[Comparison]) -> str:
    """One sentence about all of them."""
    differing = [each for each in comparisons if each.differ]
    vague = [each.name for each in comparisons if each.vague]
    if not differing and vague:
        return (
            "no difference seen, but the repeats spread too far to exclude one: "
            f"{', '.join(vague)}; ask for more --repeats or --requests"
        )
    if not differing:
        return "no difference: every interval of B / A holds 1"
    return "; ".join(f"{each.name}: {each.said}" for each in differing)


def middle_and_spread(values: Sequence[float]) -> str:
    """The median of the repeats, and the least and the greatest."""
    return f"{median(values):.4g} [{min(values):.4g}..{max(values):.4g}]"
