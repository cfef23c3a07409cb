"""What does docs/benchmarks.md say? Everything in it comes from the measurements. Pure."""

import shlex
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from peers.bars import BARS, Verdict, judge
from peers.figures import SHOWN, Document, Kind, Measured, by_server, failed, samples
from peers.servers import Server
from peers.workloads import ONLINE, TITLES, WORKLOADS, Workload
from splitpool_bench.measuring.figures import ENOUGH_FOR_P99
from splitpool_bench.stats import p99, quantile_interval

_HEAD = """# Beside other servers

This page is written by `make bench-peers` from the measurements of one run; `make peers` installs
the servers that are compared. All serve SmolLM2-135M-Instruct from the same weights on the same
cores, one at a time while the others stand still, and all get the same arrivals and lengths from
the same load generator (`splitpool bench`), which runs on these cores too. Answers always reach the
length that was asked for; no words are sent twice, so no prefix cache answers. Nothing here is a
claim about other machines or models.

splitpool computes guessed tokens beside the next one where little else is to do ([how and how much
it gives on prose](benchmarking.md#guessed-tokens)); the others run with their defaults, without.
These prompts are random words, and the answers to them soon repeat themselves, so guesses are right
far more often than they are on prose. The rows without guessed tokens, `plain` among the bars, show
what splitpool does without them.
"""

_HOW = """Medians, with [least..most] of requests (W1, W3, TTFT, TPOT) or of repeats (rates);
p99 is of the short requests of all repeats together, with its 95 % bootstrap interval. Short
requests are all but the batch jobs of W5; failed counts both.
"""


def page(documents: Sequence[Document], known: Sequence[Server], plan: Mapping[str, Any]) -> str:
    """The whole page; `known` gives servers their order, titles and notes."""
    measured = by_server(documents)
    parts = [
        _HEAD,
        "![Throughput and waits side by side](benchmarks.svg)\n",
        "## Bars\n",
        _bars(measured, known),
        "## Figures\n",
        _HOW,
        *(_workload(each, measured, known, plan) for each in WORKLOADS),
        "## Machine and versions\n",
        _machine(documents),
        _versions(measured, known),
    ]
    return "\n".join(parts)


def _bars(measured: Measured, known: Sequence[Server]) -> str:
    titles = {each.name: each.title for each in known}
    rows = [_bar(judge(bar, measured), titles) for bar in BARS]
    header = ("", "figure", "ours", "theirs", "ours / theirs", "95 %", "bar", "verdict")
    return _table(header, rows) + (
        "\nA bar is met when the whole interval clears it. Both sides are drawn again 1,000 times, "
        "requests or\nrepeats, and the interval is that of the ratios. Repeats, in which servers "
        "take turns, and requests\nat the same times (W4, W5) are drawn together.\n"
    )


def _bar(verdict: Verdict, titles: Mapping[str, str]) -> list[str]:
    bar = verdict.bar
    (ours, mine), (theirs, other) = bar.ours, bar.theirs
    against = f"our {other}" if ours == theirs else titles.get(theirs, theirs)
    known = verdict.said != "not measured"
    low, high = verdict.interval
    said = f"**{verdict.said}**" if verdict.said == "met" else verdict.said
    if known and bar.kind.statistic is p99 and verdict.samples < ENOUGH_FOR_P99:
        said += f", of only {verdict.samples} requests"
    if verdict.failed:
        said += f" ({verdict.failed} failed)"
    return [
        bar.group,
        f"{mine} {bar.kind.name}, {bar.kind.unit}",
        _number(verdict.ours),
        f"{_number(verdict.theirs)} ({against})",
        f"{verdict.ratio:.2f}" if known else "",
        f"{low:.2f}..{high:.2f}" if known else "",
        bar.bar.replace("<=", "≤").replace(">=", "≥"),
        said,
    ]


def _workload(
    workload: Workload, measured: Measured, known: Sequence[Server], plan: Mapping[str, Any]
) -> str:
    shown = [
        (server, documents)
        for server in known
        if (documents := measured.get((server.name, workload)))
    ]
    title = f"### {workload}: {TITLES[workload]}\n"
    if workload in ONLINE and "rate" in plan:
        title += f"\n{plan['rate']:.3g} requests/s, from {plan['rate_from']}'s W2.\n"
    if not shown:
        return title + "\nNot measured.\n"
    kinds = SHOWN[workload]
    header = ("server", "requests", *(f"{kind.name}, {kind.unit}" for kind in kinds), "failed")
    rows = [
        [
            server.title,
            str(sum(len(samples(SHOWN["W4"][0], [each])) for each in documents)),
            *(_cell(kind, documents) for kind in kinds),
            str(failed(documents)),
        ]
        for server, documents in shown
    ]
    return f"{title}\n{_table(header, rows)}"


def _cell(kind: Kind, documents: Iterable[Document]) -> str:
    values = samples(kind, documents)
    if not values:
        return "-"
    if kind.statistic is p99:
        low, high = quantile_interval(values, 0.99)
    else:
        low, high = min(values), max(values)
    return f"{_number(kind.statistic(values))} [{_number(low)}..{_number(high)}]"


def _machine(documents: Sequence[Document]) -> str:
    about = documents[-1]["machine"]
    loads = [each["machine"]["load_before"] for each in documents]
    days = sorted({_day(each["at"]) for each in documents})
    return (
        f"- {about['cpu']}, {about['cores']} cores, {about['memory_gib']} GiB; "
        f"{', '.join(about['instructions'])}\n"
        f"- {about['system']}, Python {about['python']}\n"
        f"- {_span(days)}; load average before each measurement {min(loads):g} to {max(loads):g}\n"
    )


def _versions(measured: Measured, known: Sequence[Server]) -> str:
    rows = []
    for server in known:
        mine = [
            each for (name, _), found in measured.items() if name == server.name for each in found
        ]
        if mine:
            told = _span(sorted({each["version"] for each in mine}))
            rows.append([server.title, told, server.note, f"`{_command(mine[-1]['command'])}`"])
    return _table(("server", "version", "how", "command"), rows)


def _command(words: Sequence[str]) -> str:
    """Without the folders of this machine."""
    return shlex.join(Path(word).name if word.startswith("/") else word for word in words)


def _span(values: Sequence[str]) -> str:
    return values[0] if len(values) == 1 else f"{values[0]} to {values[-1]}"


def _day(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).date().isoformat()


def _number(value: float) -> str:
    """Three digits, no exponent."""
    if value != value:
        return "-"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"
