"""How do the sweeps read as a page with plots? Figures in, Markdown and SVG out. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from matplotlib.axes import Axes

from splitpool_bench.reporting.drawing import BLUE, ORANGE, RED, panels
from splitpool_bench.sweeping.driving import Taken
from splitpool_bench.sweeping.settings import Sweep

_FIGURES = {
    "tokens/s": ("tokens_per_second", BLUE),
    "TTFT p50 ms": ("ttft_p50", ORANGE),
    "gap p99 ms": ("gap_p99", RED),
}
_COLUMNS = {
    "tokens/s": "tokens_per_second",
    "TTFT p50 ms": "ttft_p50",
    "TTFT p99 ms": "ttft_p99",
    "gap p50 ms": "gap_p50",
    "gap p99 ms": "gap_p99",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """A sweep, and the runs of each of its settings by label, one a seed."""

    sweep: Sweep
    runs: Mapping[str, Sequence[Taken]]


def plot(result: Result) -> str:
    """Three figures over the settings: the median, and the least and the most of the seeds."""
    labels = list(result.runs)
    with panels(3, height=2.6) as sheet:
        for axes, (name, (figure, colour)) in zip(sheet.axes, _FIGURES.items(), strict=True):
            _spread(axes, [_values(runs, figure) for runs in result.runs.values()], colour)
            turned = 20 if max(map(len, labels)) > 8 else 0
            axes.set_xticks(range(len(labels)), labels, rotation=turned)
            axes.set(title=name)
            axes.set_ylim(bottom=0)
    return sheet.svg


def page(results: Sequence[Result], about: Mapping[str, Any], command: str) -> str:
    """The generated part of docs/batching.md."""
    machine = ", ".join(f"{key} {value}" for key, value in about.items())
    parts = [f"Measured by `{command}` on: {machine}.", *(_section(each) for each in results)]
    return "\n\n".join(parts) + "\n"


def _section(result: Result) -> str:
    sweep = result.sweep
    arrivals = "all at once" if sweep.rate is None else f"{sweep.rate:.2g} a second (Poisson)"
    load = {
        "long prompts": "three of prompts of 16-64 tokens and answers of 48 to one of 768 and 8"
    }.get(sweep.load, sweep.load)
    header = " | ".join(("", *_COLUMNS))
    lines = [
        f"## {sweep.title}",
        f"{sweep.question} Requests: {load}; {arrivals}.",
        f"![{sweep.title.replace('`', '')}](batching/{sweep.name}.svg)",
        "\n".join(
            [
                f"|{header} |",
                "|" + "---|" * (len(_COLUMNS) + 1),
                *(_row(label, runs) for label, runs in result.runs.items()),
            ]
        ),
    ]
    return "\n\n".join(lines)


def _row(label: str, runs: Sequence[Taken]) -> str:
    cells = (_cell(_values(runs, figure)) for figure in _COLUMNS.values())
    return f"| {label} | {' | '.join(cells)} |"


def _cell(values: Sequence[float]) -> str:
    return f"{median(values):.0f} ({min(values):.0f}..{max(values):.0f})"


def _values(runs: Sequence[Taken], figure: str) -> list[float]:
    return [getattr(each, figure) for each in runs]


def _spread(axes: Axes, values: Sequence[Sequence[float]], colour: str) -> None:
    middles = [median(each) for each in values]
    axes.plot(range(len(values)), middles, "o", color=colour, markersize=5)
    axes.vlines(
        range(len(values)), [min(v) for v in values], [max(v) for v in values], colors=colour
    )
