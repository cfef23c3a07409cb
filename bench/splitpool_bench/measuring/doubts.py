"""What should a reader doubt about the figures of a measurement, and what would help?"""

from collections.abc import Iterator

from splitpool_bench.exchange import Outcome
from splitpool_bench.measuring.figures import ENOUGH_FOR_P99, Figures, figures
from splitpool_bench.measuring.options import Options
from splitpool_bench.measuring.point import Point
from splitpool_bench.measuring.result import Measured

GATHERED = 1.05  # tokens an event: above it several tokens come at once


def doubts(server: Measured, options: Options) -> list[str]:
    """Sentences, the same one once."""
    found: dict[str, None] = {}
    for point in server.points:
        for said in (*_of_generator(point), *_of_answers(point)):
            found.setdefault(f"{point.name}: {said}")
    for said in _of_samples(server):
        found.setdefault(said)
    return list(found)


def _of_generator(point: Point) -> list[str]:
    """The load generator was the limit."""
    ttft = figures(point.outcomes, "", "").ttft.p50
    return point.generator.limits(ttft if ttft == ttft else 0.0)


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


def _of_samples(server: Measured) -> Iterator[str]:
    fewest = min((len(point.outcomes) for point in server.points), default=0)
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
