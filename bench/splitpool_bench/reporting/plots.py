"""The plots of a measurement, each as SVG text: curve, parts of TTFT, ITL, timeline, comparison."""

import math
from collections.abc import Sequence

from matplotlib.axes import Axes

from splitpool_bench.exchange import Outcome
from splitpool_bench.measuring.figures import Figures, Spread, figures
from splitpool_bench.measuring.options import Targets
from splitpool_bench.measuring.point import Point
from splitpool_bench.measuring.timeline import backlog_grows, timeline
from splitpool_bench.measuring.verdict import Comparison
from splitpool_bench.reporting.drawing import (
    BLUE,
    CLASS_COLOURS,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    RED,
    SIDES,
    SKY,
    YELLOW,
    panels,
    plain_log,
)

_PARTS = {
    "connect": GREY,
    "queue": ORANGE,
    "prefill": BLUE,
    "receive": "#b3b3b3",
    "parse": GREEN,
    "tokenise": YELLOW,
    "detokenise": PURPLE,
    "transport": SKY,
    "write": RED,
    "retry": "#000000",
    "network, client": "#d9d9d9",
}
SHORTEST = 1e-4  # seconds: gaps of events that came together have no place on a logarithm
_DOTS = 3000  # more make the page slow and the cloud no clearer


def curve(points: Sequence[Point], cls: str, targets: Targets) -> str:
    """TTFT, TPOT and what was answered over the offered rate."""
    ordered = sorted((p for p in points if p.rate), key=lambda point: point.rate or 0)
    rates = [point.rate or 0 for point in ordered]
    found = [_of_class(point, cls) for point in ordered]
    with panels(3) as sheet:
        ttft, tpot, answered = sheet.axes
        _over_rate(ttft, rates, [each.ttft for each in found], targets.ttft_p99)
        ttft.set(title=f"TTFT of {cls}", ylabel="ms, client's clock")
        _over_rate(tpot, rates, [each.tpot for each in found], targets.tpot_p99)
        tpot.set(title=f"TPOT of {cls}", ylabel="ms a token")
        _answered(answered, rates, ordered)
        for axes in sheet.axes:
            axes.set_xlabel("offered requests/s")
    return sheet.svg


def parts(points: Sequence[Point]) -> str:
    """The mean TTFT of every point and class, split into what the server measured of it."""
    rows = [(p.name, each) for p in points for each in p.agreements if each.comparable]
    if not rows:
        return ""
    places = list(range(len(rows)))
    split = [each.parts() for _, each in rows]
    longest = max(each.ttft for _, each in rows)
    with panels(1, height=1.3 + 0.34 * len(rows)) as sheet:
        (axes,) = sheet.axes
        left = [0.0] * len(rows)
        for part, colour in _PARTS.items():
            widths = [max(0.0, known.get(part, 0.0)) * 1000 for known in split]
            if max(widths) > 5 * longest:  # half a percent is what can be seen
                axes.barh(places, widths, left=left, color=colour, label=part, height=0.62)
            left = [a + b for a, b in zip(left, widths, strict=True)]
        axes.set_yticks(places, [f"{name}  {each.served.latency_class}" for name, each in rows])
        axes.set(title="Where the time to the first token goes (means)", xlabel="ms")
        axes.invert_yaxis()
        axes.grid(visible=False, axis="y")
        axes.legend(ncols=6, loc="upper left", bbox_to_anchor=(0, -0.24 - 0.12 / len(rows)))
    return sheet.svg


def details(point: Point) -> str:
    """TTFT over time, gaps between tokens, requests in flight."""
    with panels(3) as sheet:
        _ttft_over_time(sheet.axes[0], point)
        _gaps(sheet.axes[1], point.outcomes)
        _in_flight(sheet.axes[2], point)
    return sheet.svg


def comparison(found: Sequence[Comparison], sides: Sequence[Sequence[Point]]) -> str:
    """B / A with its interval for every figure, and the TTFT of all requests of both."""
    with panels(2) as sheet:
        ratios, distribution = sheet.axes
        known = [each for each in found if not math.isnan(each.ratio)]
        for row, each in enumerate(known):
            low, high = each.interval
            better = (each.ratio < 1) == each.lower_is_better
            colour = GREY if not each.differ else GREEN if better else RED
            ratios.plot([low, high], [row, row], color=colour, linewidth=2.5)
            ratios.plot([each.ratio], [row], "o", color=colour)
        ratios.axvline(1, color="#000000", linewidth=1)
        ratios.set_yticks(range(len(known)), [each.name for each in known])
        ratios.invert_yaxis()
        ratios.set(title="B / A, with interval: grey is no difference", xlabel="ratio")
        for name, points in zip(SIDES, sides, strict=True):
            values = [each.ttft for point in points for each in point.outcomes]
            _share_below(distribution, values, name, SIDES[name])
        distribution.set(title="TTFT of all requests", xlabel="ms", ylabel="share of requests")
        distribution.legend()
    return sheet.svg


def _of_class(point: Point, cls: str) -> Figures:
    return figures([each for each in point.outcomes if each.latency_class == cls], cls, "all")


def _over_rate(
    axes: Axes, rates: Sequence[float], spreads: Sequence[Spread], target: float | None
) -> None:
    axes.plot(rates, [s.p50 * 1000 for s in spreads], "o-", color=BLUE, label="p50", markersize=4)
    axes.plot(rates, [s.p99 * 1000 for s in spreads], "o-", color=RED, label="p99", markersize=4)
    low = [s.p99_interval[0] * 1000 for s in spreads]
    high = [s.p99_interval[1] * 1000 for s in spreads]
    axes.fill_between(rates, low, high, color=RED, alpha=0.15, linewidth=0, label="p99, 95 %")
    if target is not None:
        axes.axhline(target * 1000, color="#000000", linestyle="--", linewidth=1, label="target")
    plain_log(axes, "y")
    axes.legend()


def _answered(axes: Axes, rates: Sequence[float], points: Sequence[Point]) -> None:
    answered = [point.requests_per_second for point in points]
    axes.plot(
        [0, max(rates)], [0, max(rates)], color=GREY, linewidth=1, label="all that is offered"
    )
    axes.plot(rates, answered, "o-", color=BLUE, label="answered", markersize=4)
    growing = [backlog_grows(p.outcomes, p.began, p.last_start) for p in points]
    axes.plot(
        [rate for rate, grows in zip(rates, growing, strict=True) if grows],
        [each for each, grows in zip(answered, growing, strict=True) if grows],
        "x",
        color=RED,
        markersize=10,
        label="backlog grows",
    )
    axes.set(title="What is answered", ylabel="requests/s")
    axes.legend()


def _ttft_over_time(axes: Axes, point: Point) -> None:
    for cls, mine in _classes([*point.outcomes, *point.beside]):
        seen = [each for each in mine if each.ttft is not None][:_DOTS]
        times = [each.sent - point.began for each in seen]
        values = [(each.ttft or 0) * 1000 for each in seen]
        axes.plot(times, values, ".", color=_colour(cls), label=cls, markersize=4, alpha=0.7)
    failed = [each.sent - point.began for each in point.outcomes if each.failure is not None]
    if failed:
        axes.plot(failed, [1.0] * len(failed), "x", color=RED, label="failed")
    axes.set(title="TTFT of each request", xlabel="s since the start", ylabel="ms")
    plain_log(axes, "y")
    axes.legend()


def _gaps(axes: Axes, outcomes: Sequence[Outcome]) -> None:
    for cls, mine in _classes(outcomes):
        _share_above(axes, [gap for each in mine for gap in each.gaps], cls, _colour(cls))
    axes.set(title="ITL: gaps longer than ...", xlabel="ms", ylabel="share of gaps")
    plain_log(axes, "x")
    plain_log(axes, "y")
    axes.legend()


def _in_flight(axes: Axes, point: Point) -> None:
    moments = timeline([*point.outcomes, *point.beside], point.began)
    axes.stackplot(
        [each.at for each in moments],
        [each.producing for each in moments],
        [each.waiting for each in moments],
        colors=(BLUE, ORANGE),
        alpha=0.8,
        linewidth=0,
        labels=("producing tokens (the batch)", "before the first token"),
    )
    axes.axvline(point.last_start - point.began, color=GREY, linewidth=1, linestyle="--")
    axes.set(title="Requests in flight", xlabel="s since the start (dashed: last arrival)")
    top = max((each.in_flight for each in moments), default=1)
    axes.set_ylim(0, 1.3 * top + 1)  # room for the legend
    axes.legend()


def _share_below(axes: Axes, values: Sequence[float | None], label: str, colour: str) -> None:
    kept = sorted(value * 1000 for value in values if value is not None)
    axes.plot(kept, [(n + 1) / len(kept) for n in range(len(kept))], color=colour, label=label)


def _share_above(axes: Axes, values: Sequence[float], label: str, colour: str) -> None:
    """The tail, which a histogram hides; of many values every so manieth and the last ones."""
    kept = sorted(max(value, SHORTEST) * 1000 for value in values)
    if not kept:
        return
    every = max(1, len(kept) // _DOTS)
    chosen = [n for n in range(len(kept)) if n % every == 0 or n > len(kept) - 200]
    shares = [1 - n / len(kept) for n in chosen]
    axes.plot([kept[n] for n in chosen], shares, color=colour, label=label)


def _classes(outcomes: Sequence[Outcome]) -> list[tuple[str, list[Outcome]]]:
    names = sorted({each.latency_class for each in outcomes}, reverse=True)
    return [(cls, [each for each in outcomes if each.latency_class == cls]) for cls in names]


def _colour(cls: str) -> str:
    return CLASS_COLOURS.get(cls, GREEN)
