"""Which bars must splitpool clear, and does it? Ratios of one run with bootstrap intervals. Pure.

Both sides are drawn again; the percentiles of the ratios are the interval (Efron). Where both had
the same requests at the same times, as in W4 and W5, the same ones are drawn for both: a burst is
hard for either, and would else count as a difference. So it is with figures of whole repeats, in
which servers take turns: a machine that is slower for some minutes is so for all. A bar is met when
the whole interval clears it.
"""

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

from peers.figures import (
    DECODE,
    OUTPUT,
    TOTAL,
    TPOT_P99,
    TTFT,
    TTFT_P99,
    Kind,
    Measured,
    failed,
    samples,
)
from peers.workloads import ONLINE, Workload
from splitpool_bench.stats import Statistic, quantile

Said = Literal["met", "missed", "not decided", "not measured"]
LEAST_SAMPLES = 3
"""Fewer have no spread, so nothing is decided by them."""
_ROUNDS = 1000
_TAIL = 0.025


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """Our figure divided by another must be at least, or at most, a limit."""

    group: str
    kind: Kind
    ours: tuple[str, Workload]
    theirs: tuple[str, Workload]
    limit: float
    at_least: bool = False

    @property
    def bar(self) -> str:
        """In words."""
        return f"{'>=' if self.at_least else '<='} {self.limit:g}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """A bar with what was found; NaN where one side is not there."""

    bar: Bar
    ours: float
    theirs: float
    interval: tuple[float, float]
    samples: int
    """Of the side that has fewer."""
    failed: int
    """Requests of both sides that have no whole answer."""

    @property
    def ratio(self) -> float:
        """Ours / theirs."""
        return self.ours / self.theirs if self.theirs else math.nan

    @property
    def said(self) -> Said:
        """Whether the whole interval clears the bar, the whole misses it, or neither."""
        low, high = self.interval
        if math.isnan(low):
            return "not measured"
        if self.samples < LEAST_SAMPLES:
            return "not decided"
        if self.bar.at_least:
            low, high = -high, -low
        limit = -self.bar.limit if self.bar.at_least else self.bar.limit
        return "met" if high <= limit else "missed" if low > limit else "not decided"


def _bar(
    group: str, kind: Kind, workload: Workload, theirs: str, limit: float, *, least: bool = False
) -> Bar:
    """Our server of that precision against another one, on the same workload."""
    return Bar(
        group=group,
        kind=kind,
        ours=(f"splitpool-{group}", workload),
        theirs=(theirs, workload),
        limit=limit,
        at_least=least,
    )


_bf16, _int8 = partial(_bar, "bf16"), partial(_bar, "int8")
_plain_bf16, _plain_int8 = partial(_bar, "bf16-plain"), partial(_bar, "int8-plain")

BARS = (
    _bf16(DECODE, "W1", "llamacpp-bf16", 1.2, least=True),
    _bf16(OUTPUT, "W2", "vllm", 1.4, least=True),
    _bf16(TTFT, "W3", "vllm", 0.85),
    _bf16(TTFT_P99, "W4", "vllm", 0.8),
    _bf16(TPOT_P99, "W4", "vllm", 1.0),
    Bar(
        group="bf16",
        kind=TTFT_P99,
        ours=("splitpool-bf16", "W5"),
        theirs=("splitpool-bf16", "W4"),
        limit=1.3,
    ),
    _bf16(TTFT_P99, "W5", "vllm", 0.1),
    _bf16(TOTAL, "W5", "vllm", 0.9, least=True),
    Bar(
        group="bf16, Split",
        kind=TTFT_P99,
        ours=("splitpool-split", "W5"),
        theirs=("splitpool-split", "W4"),
        limit=2.0,
    ),
    _plain_bf16(DECODE, "W1", "llamacpp-bf16", 1.2, least=True),
    _plain_bf16(OUTPUT, "W2", "vllm", 1.4, least=True),
    _int8(DECODE, "W1", "llamacpp-q8_0", 1.4, least=True),
    _int8(OUTPUT, "W2", "vllm", 2.0, least=True),
    _int8(TTFT, "W3", "openvino-int8", 0.75),
    _plain_int8(DECODE, "W1", "llamacpp-q8_0", 1.4, least=True),
    _plain_int8(OUTPUT, "W2", "vllm", 2.0, least=True),
)


def judge(bar: Bar, measured: Measured) -> Verdict:
    """Hold a bar against what was measured."""
    ours, theirs = measured.get(bar.ours, ()), measured.get(bar.theirs, ())
    a, b = samples(bar.kind, ours), samples(bar.kind, theirs)
    statistic = bar.kind.statistic
    same_times = bar.ours[1] in ONLINE and bar.theirs[1] in ONLINE
    paired = len(a) == len(b) and (same_times or bar.kind.of_repeats)
    nothing = math.nan
    return Verdict(
        bar=bar,
        ours=statistic(a) if a else nothing,
        theirs=statistic(b) if b else nothing,
        interval=ratio_interval(a, b, statistic, paired=paired) if a and b else (nothing, nothing),
        samples=min(len(a), len(b)),
        failed=failed(ours) + failed(theirs),
    )


def ratio_interval(
    a: Sequence[float],
    b: Sequence[float],
    statistic: Statistic,
    *,
    paired: bool = False,
    seed: int = 0,
) -> tuple[float, float]:
    """95 % percentile bootstrap of statistic(a) / statistic(b).

    paired: sample i of both is the same request, so both are drawn together; they are of one
    length then.
    """
    rng = random.Random(seed)
    ratios = []
    for _ in range(_ROUNDS):
        drawn = rng.choices(range(len(a)), k=len(a))
        other = drawn if paired else rng.choices(range(len(b)), k=len(b))
        ratios.append(statistic([a[i] for i in drawn]) / statistic([b[i] for i in other]))
    return quantile(ratios, _TAIL), quantile(ratios, 1 - _TAIL)
