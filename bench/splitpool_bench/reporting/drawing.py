"""How is a plot drawn? matplotlib figures as SVG text that stands in a page without scripts."""

import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

# Okabe and Ito's colours, told apart by colour-blind readers as well.
BLUE, ORANGE, GREEN, RED, PURPLE, SKY, YELLOW, GREY = (
    *("#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#F0E442"),
    "#7F7F7F",
)
CLASS_COLOURS = {"interactive": BLUE, "batch": ORANGE}
SIDES = {"A": BLUE, "B": ORANGE}
_STYLE: Any = {
    "svg.fonttype": "none",  # text stays text: small, and it can be searched
    "text.parse_math": False,  # names of files and models are no formulas
    "svg.hashsalt": "splitpool",  # the same figures give the same file
    "font.family": "sans-serif",
    "font.sans-serif": ["Helvetica", "Arial", "Liberation Sans", "DejaVu Sans"],
    "font.size": 9.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.titlelocation": "left",
    "axes.titlesize": 10.5,
    "axes.titleweight": "bold",
    "grid.color": "#e4e4e4",
    "legend.frameon": False,
    "legend.fontsize": 8.5,
}


@contextmanager
def panels(count: int, *, width: float = 11.0, height: float = 3.1) -> Iterator["Sheet"]:
    """Axes side by side; sizes in inches."""
    with matplotlib.rc_context(_STYLE):
        figure = Figure(figsize=(width, height), layout="constrained")
        sheet = Sheet(figure, [figure.add_subplot(1, count, n + 1) for n in range(count)])
        yield sheet
        sheet.svg = _svg(figure)


class Sheet:
    """Axes to draw on; `svg` is there once the block has ended."""

    def __init__(self, figure: Figure, axes: list[Axes]) -> None:
        self.figure = figure
        self.axes = axes
        self.svg = ""


def plain_log(axes: Axes, which: str) -> None:
    """A logarithmic axis ("x" or "y") whose ticks are written as plain numbers."""
    axis = axes.xaxis if which == "x" else axes.yaxis
    if which == "x":
        axes.set_xscale("log")
    else:
        axes.set_yscale("log")
    plain = FuncFormatter(lambda value, _: f"{value:g}")
    axis.set_major_formatter(plain)
    low, high = axes.get_xlim() if which == "x" else axes.get_ylim()
    # Ticks between the powers of ten are wanted where there are few of those.
    wanted = "23456789" if high < 8 * low else "25" if high < 200 * low else ""
    between = FuncFormatter(lambda value, _: f"{value:g}" if f"{value:e}"[0] in wanted else "")
    axis.set_minor_formatter(between)


def _svg(figure: Figure) -> str:
    written = io.StringIO()
    figure.savefig(written, format="svg", transparent=True, metadata={"Date": None})
    text = written.getvalue()
    return text[text.index("<svg") :]
