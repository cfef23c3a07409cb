"""What do the outcomes of a load amount to, per class and per length group? Pure."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from splitpool_bench.exchange import Outcome
from splitpool_bench.measuring.options import Targets
from splitpool_bench.stats import quantile, quantile_interval

GROUPS = (128, 512, 2048, 8192)
ENOUGH_FOR_P99 = 1000
_REJECTED = ("http 429", "http 503")


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """Quantiles of a sample in seconds, with the 95 % bootstrap interval of its p99."""

    count: int
    p50: float
    p90: float
    p99: float
    p99_interval: tuple[float, float]
    mean: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """Of one class, or of one length group of it."""

    latency_class: str
    group: str
    requests: int
    succeeded: int
    rejected: int
    failed: int
    prompt_tokens: int
    cached_tokens: int
    output_tokens: int
    events: int
    uncounted: int
    """Answers whose tokens only the events could tell."""
    ttft: Spread
    tpot: Spread
    itl: Spread
    e2e: Spread

    @property
    def tokens_per_event(self) -> float:
        """Above 1 where the server gathers tokens: gaps between events are then no ITL."""
        return self.output_tokens / self.events if self.events else 0.0


def length_group(prompt_tokens: int) -> str:
    """The group of a prompt: le128, le512, le2048, le8192 or more."""
    return next((f"le{edge}" for edge in GROUPS if prompt_tokens <= edge), "more")


def by_class(outcomes: Iterable[Outcome]) -> list[Figures]:
    """A class after the other, each as a whole and then by length group where there are several."""
    outcomes = list(outcomes)
    found = []
    for cls in sorted({each.latency_class for each in outcomes}, reverse=True):
        mine = [each for each in outcomes if each.latency_class == cls]
        found.append(figures(mine, cls, "all"))
        groups: dict[str, list[Outcome]] = {}
        for each in sorted(mine, key=lambda outcome: outcome.prompt_tokens):
            if each.prompt_tokens:  # a refused request says no length
                groups.setdefault(length_group(each.prompt_tokens), []).append(each)
        if len(groups) > 1:
            found += [figures(members, cls, name) for name, members in groups.items()]
    return found


def figures(outcomes: Sequence[Outcome], cls: str, group: str) -> Figures:
    """All figures of these outcomes."""
    return Figures(
        latency_class=cls,
        group=group,
        requests=len(outcomes),
        succeeded=sum(each.failure is None for each in outcomes),
        rejected=sum(each.failure in _REJECTED for each in outcomes),
        failed=sum(each.failure not in (None, *_REJECTED) for each in outcomes),
        prompt_tokens=sum(each.prompt_tokens for each in outcomes if each.content_times),
        cached_tokens=sum(each.cached_tokens for each in outcomes),
        output_tokens=sum(each.output_tokens for each in outcomes),
        events=sum(len(each.content_times) for each in outcomes),
        uncounted=sum(not each.counted for each in outcomes),
        ttft=spread(each.ttft for each in outcomes),
        tpot=spread(each.tpot for each in outcomes),
        itl=spread((gap for each in outcomes for gap in each.gaps), interval=False),
        e2e=spread(each.e2e for each in outcomes if each.failure is None),
    )


def spread(values: Iterable[float | None], *, interval: bool = True) -> Spread:
    """Of what there is. Gaps of one answer hang together: their p99 has no interval."""
    kept = sorted(value for value in values if value is not None)
    nothing = float("nan")
    return Spread(
        count=len(kept),
        p50=quantile(kept, 0.5),
        p90=quantile(kept, 0.9),
        p99=quantile(kept, 0.99),
        p99_interval=quantile_interval(kept, 0.99) if interval else (nothing, nothing),
        mean=sum(kept) / len(kept) if kept else nothing,
    )


def share_within(
    outcomes: Sequence[Outcome], value: Callable[[Outcome], float | None], target: float
) -> float:
    """The share of requests that kept a target; one that failed did not.

    An answer of one token has no TPOT and keeps any.
    """
    kept = [
        each.failure is None and ((found := value(each)) is None or found <= target)
        for each in outcomes
    ]
    return sum(kept) / len(kept) if kept else 0.0


def missed(outcomes: Sequence[Outcome], targets: Targets) -> str | None:
    """Which target fewer than 99 % of the requests kept, in words; None where all are kept.

    99 % within a target is what p99 within it means.
    """
    wanted: list[tuple[str, float | None, Callable[[Outcome], float | None]]] = [
        ("TTFT", targets.ttft_p99, lambda each: each.ttft),
        ("TPOT", targets.tpot_p99, lambda each: each.tpot),
    ]
    for name, target, value in wanted:
        share = 1.0 if target is None else share_within(outcomes, value, target)
        if target is not None and share < 0.99:
            return f"only {share:.0%} of the requests kept {name} <= {target * 1000:g} ms"
    return None
