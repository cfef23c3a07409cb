"""What should a reader doubt about the figures of a measurement, and what would help?"""

import math
from collections.abc import Iterator, Sequence

from splitpool_bench.exchange import Outcome
from splitpool_bench.measuring.figures import ENOUGH_FOR_P99, Figures, figures
from splitpool_bench.measuring.generator import Limit
from splitpool_bench.measuring.options import Options
from splitpool_bench.measuring.point import Point
from splitpool_bench.measuring.result import Measured, Result

GATHERED = 1.05  # tokens an event: above it several tokens come at once
MOST_CACHED = 0.1  # below it lies what the template of a chat shares
_LIMITS: dict[Limit, str] = {
    "cpu": "{where}it used up to {share} of a core; send less at once, or run it elsewhere",
    "late": "{where}1 % of the requests started {worst} late or more; its machine is busy",
    "lag": "{where}1 % of the time it read answers {worst} late or more; its machine is "
    "busy: give it a core of its own",
}


def doubts(result: Result) -> list[str]:
    """Sentences about every server, the gravest first."""
    sides = ("A: ", "B: ") if len(result.servers) > 1 else ("",)
    return [
        f"{side}{said}"
        for side, server in zip(sides, result.servers, strict=True)
        for said in _doubts(server, result.options)
    ]


def _doubts(server: Measured, options: Options) -> list[str]:
    return [
        *_of_generator(server.points),
        *(f"{point.name}: {said}" for point in server.points for said in _of_answers(point)),
        *_of_cache(server, options),
        *_of_samples(server),
    ]


def _of_generator(points: Sequence[Point]) -> Iterator[str]:
    """The load generator was the limit."""
    worst: dict[Limit, list[float]] = {}
    for point in points:
        ttft = figures(point.outcomes, "", "").ttft.p50
        known = 0.0 if math.isnan(ttft) else ttft
        for name, seen in point.generator.limits(known).items():
            worst.setdefault(name, []).append(seen)
    for name, seen_in in worst.items():
        where = f"in {len(seen_in)} of {len(points)} points " if len(points) > 1 else ""
        yield "the load generator was a limit: " + _LIMITS[name].format(
            where=where, worst=f"{max(seen_in) * 1000:.0f} ms", share=f"{max(seen_in):.0%}"
        )


def _of_answers(point: Point) -> Iterator[str]:
    every = [*point.outcomes, *point.beside]
    failed = [each for each in every if each.failure is not None]
    if failed:
        yield f"{len(failed)} of {len(every)} requests failed: {_reasons(failed)}"
    for cls in sorted({each.latency_class for each in point.outcomes}):
        mine = figures([each for each in point.outcomes if each.latency_class == cls], cls, "all")
        yield from _of_counting(mine)


def _of_counting(found: Figures) -> Iterator[str]:
    if found.uncounted:
        yield (
            f"{found.uncounted} answers came without usage: each event was taken as one token, "
            "and lengths of prompts as asked"
        )
    elif found.tokens_per_event > GATHERED:
        yield (
            f"{found.latency_class}: {found.tokens_per_event:.1f} tokens came in one event; "
            "ITL is the gap between events, TPOT that between tokens"
        )


def _of_cache(server: Measured, options: Options) -> Iterator[str]:
    every = figures(server.outcomes, "", "")
    if not options.shared_prefix and every.cached_tokens > MOST_CACHED * every.prompt_tokens:
        yield (
            f"{every.cached_tokens / every.prompt_tokens:.0%} of the prompts' tokens came from "
            "the server's prefix cache, though no prompt is sent twice"
        )


def _of_samples(server: Measured) -> Iterator[str]:
    fewest = min((len(pool) for pool in server.pools), default=0)
    if fewest < ENOUGH_FOR_P99:
        yield (
            f"a p99 of {fewest} requests is weak: trust its interval, "
            f"or ask for --requests {ENOUGH_FOR_P99}"
        )


def _reasons(failed: list[Outcome]) -> str:
    counts: dict[str, int] = {}
    for each in failed:
        counts[each.failure or ""] = counts.get(each.failure or "", 0) + 1
    ordered = sorted(counts.items(), key=lambda item: -item[1])
    said = ", ".join(f"{reason} ({count})" for reason, count in ordered)
    detail = next((each.detail for each in failed if each.detail), "")
    return f"{said}; the first said: {detail}" if detail else said
