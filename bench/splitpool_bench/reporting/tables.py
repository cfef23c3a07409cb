"""A measurement as text for a terminal: what was asked, a row a class, and what to doubt."""

import math
from collections.abc import Iterator, Sequence

from splitpool_bench.measuring.doubts import doubts
from splitpool_bench.measuring.figures import Figures, Spread, by_class
from splitpool_bench.measuring.options import Options, Replay
from splitpool_bench.measuring.point import Point
from splitpool_bench.measuring.result import Measured, Result
from splitpool_bench.measuring.timeline import backlog_at, backlog_grows
from splitpool_bench.measuring.verdict import Comparison, compare, middle_and_spread, verdict
from splitpool_bench.report import table

HEADER = (
    *("class", "input", "requests", "rej", "fail", "TTFT p50", "p90", "p99 [95 %]"),
    *("TPOT p50", "p99 [95 %]", "ITL p50", "p99", "e2e p50", "p99 [95 %]"),
)
_COUNTING = {
    "tokenizer": "its tokenizer, so prompts have exactly the asked lengths",
    "usage": "the usage of its answers, so prompts have exactly the asked lengths",
    "bytes": "nothing that it says: lengths of prompts are estimates of four bytes a token",
}


def text(result: Result) -> str:
    """The whole report."""
    parts = [workload(result.options)]
    for number, server in enumerate(result.servers):
        name = f"{'AB'[number]} = " if len(result.servers) > 1 else ""
        parts += ["\n".join(_server(server, name)), goodput(server, result.options)]
    if len(result.servers) > 1:
        parts.append(comparison(compare(*(server.points for server in result.servers))))
    parts.append("\n".join(f"! {line}" for line in doubts(result)))
    if result.interrupted:
        parts.append("interrupted: points that were not whole are left out")
    return "\n\n".join(part for part in parts if part) + "\n"


def workload(options: Options) -> str:
    """What was asked, on one line."""
    mix = options.mix
    said = [f"{mix.latency_class}: input {mix.prompt}, output {mix.output} tokens"]
    if isinstance(options.load, Replay):
        said = [f"{len(options.load.requests)} requests of {options.load.file}"]
    other = f"{mix.other_class}: input {mix.other_prompt}, output {mix.other_output} tokens"
    if mix.other_share and not isinstance(options.load, Replay):
        said.append(f"{mix.other_share:.0%} {other}")
    if options.beside:
        said.append(f"beside it always {options.beside} x {other}")
    if options.shared_prefix:
        said.append(f"the first {options.shared_prefix} tokens shared by all")
    return f"{'; '.join(said)}; seed {options.seed}; times in ms"


def comparison(found: Sequence[Comparison]) -> str:
    """Both servers' medians and spread, the verdict of each figure and of all."""
    rows = [
        (
            f"{each.name} {each.unit}",
            middle_and_spread(each.a),
            middle_and_spread(each.b),
            f"{each.ratio:.3f}",
            each.said,
        )
        for each in found
    ]
    header = ("median [least..greatest]", "A", "B", "B / A", "verdict")
    return f"{table(header, rows)}\n\nverdict: {verdict(found)}"


def row(found: Figures) -> tuple[str, ...]:
    """Under HEADER."""
    return (
        found.latency_class,
        found.group,
        str(found.requests),
        str(found.rejected),
        str(found.failed),
        ms(found.ttft.p50),
        ms(found.ttft.p90),
        p99(found.ttft),
        ms(found.tpot.p50, 1),
        p99(found.tpot, 1),
        ms(found.itl.p50, 1),
        ms(found.itl.p99, 1),
        ms(found.e2e.p50),
        p99(found.e2e),
    )


def ms(seconds: float, digits: int = 0) -> str:
    """In milliseconds, or a dash where there is nothing."""
    return "-" if math.isnan(seconds) else f"{seconds * 1000:.{digits}f}"


def p99(spread: Spread, digits: int = 0) -> str:
    """With its interval, in milliseconds."""
    low, high = (ms(edge, digits) for edge in spread.p99_interval)
    return "-" if low == "-" else f"{ms(spread.p99, digits)} [{low}..{high}]"


def load(point: Point) -> str:
    """What was offered, what came of it, and whether the server kept up."""
    grows = backlog_grows(point.outcomes, point.began, point.last_start)
    backlog = backlog_at(point.outcomes, point.last_start)
    kept = "" if point.loop == "closed" else f", backlog {backlog} at the last arrival"
    return (
        f"{point.name} ({point.loop} loop): {point.requests_per_second:.2f} requests/s, "
        f"{point.output_tokens_per_second:.1f} output tokens/s{kept}"
        f"{' and GROWING' if grows and kept else ''}"
    )


def goodput(server: Measured, options: Options) -> str:
    """The highest rate, and what lies just above it."""
    found = server.goodput
    if found is None:
        return ""
    if found.rate is None:
        return f"goodput: none; no rate down to {found.above or 0:.3g}/s keeps {options.targets}"
    above = f"; at {found.above:.3g}/s: {_failure(server)}" if found.above else ""
    return f"goodput: {found.rate:.3g} requests/s keep {options.targets}{above}"


def _failure(server: Measured) -> str:
    assert server.goodput is not None
    above = server.goodput.above
    said = (probe.failure for probe in server.goodput.probes if probe.rate == above)
    return next((each for each in said if each), "")


def _server(server: Measured, name: str) -> Iterator[str]:
    yield f"{name}{server.model} at {server.url}; tokens counted by {_COUNTING[server.counting]}"
    warm = server.warm_up
    ttfts = [each.ttft for each in warm.outcomes if each.ttft is not None]
    first = "-" if warm.first_ttft is None else ms(warm.first_ttft)
    longest = f", {len(ttfts)} more together up to {ms(max(ttfts))}" if ttfts else ""
    yield f"warm-up, not counted below: TTFT of the very first request {first} ms{longest}"
    if server.repeated:
        yield f"\n{repeats(server)}"
        yield table(HEADER, [row(each) for each in by_class(server.outcomes)])
        return
    for point in server.points:
        yield f"\n{load(point)}"
        yield table(HEADER, [row(each) for each in by_class(point.outcomes)])
        if point.beside:
            yield "beside it, ended meanwhile:"
            yield table(HEADER, [row(each) for each in by_class(point.beside)[:1]])
        yield from ttft_parts(point)


def repeats(server: Measured) -> str:
    """What was repeated, and how often."""
    name = server.points[0].name.removeprefix("repeat 1: ")
    return f"{len(server.points)} repeats together of: {name}"


def ttft_parts(point: Point) -> Iterator[str]:
    """Where the time to the first token went, and whether server and client agree."""
    for each in point.agreements:
        shown = ", ".join(f"{name} {ms(value, 1)}" for name, value in each.parts().items())
        if each.comparable:
            yield f"served {each.said()}\n  mean ms: {shown}"
        else:
            yield f"served {each.said()}"
