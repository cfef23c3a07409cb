"""How do the servers look side by side? Throughput of W2, and the waits of W4 and W5, as SVG."""

from collections.abc import Sequence
from statistics import median

from matplotlib.axes import Axes

from peers.figures import OUTPUT, TTFT, Measured, samples
from peers.servers import Server
from peers.workloads import Workload
from splitpool_bench.reporting.drawing import (
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    RED,
    SKY,
    YELLOW,
    panels,
    plain_log,
)

_COLOURS = {
    "splitpool-bf16": BLUE,
    "splitpool-bf16-plain": BLUE,
    "splitpool-split": SKY,
    "splitpool-int8": GREEN,
    "splitpool-int8-plain": GREEN,
    "vllm": RED,
    "llamacpp-bf16": ORANGE,
    "llamacpp-q8_0": YELLOW,
    "openvino-int8": PURPLE,
    "transformers": GREY,
}


def plot(measured: Measured, known: Sequence[Server]) -> str:
    """Three panels; each server keeps its colour."""
    with panels(3, height=3.6) as sheet:
        throughput, alone, flooded = sheet.axes
        _throughput(throughput, measured, known)
        _waits(alone, measured, known, "W4")
        _waits(flooded, measured, known, "W5")
    return sheet.svg + "\n"


def _throughput(axes: Axes, measured: Measured, known: Sequence[Server]) -> None:
    shown = [
        (server, _COLOURS[server.name], samples(OUTPUT, documents))
        for server in known
        if (documents := measured.get((server.name, "W2")))
    ]
    for row, (_, colour, values) in enumerate(shown):
        middle = median(values)
        axes.barh(row, middle, color=colour, height=0.6)
        axes.plot([min(values), max(values)], [row, row], color="#000000", linewidth=1.5)
    axes.set_yticks(range(len(shown)), [server.title for server, *_ in shown])
    axes.invert_yaxis()
    axes.grid(visible=False, axis="y")
    axes.set(title="W2: 64 at once", xlabel="output tokens/s (line: least to most)")


def _waits(axes: Axes, measured: Measured, known: Sequence[Server], workload: Workload) -> None:
    for server in known:
        documents = measured.get((server.name, workload))
        values = sorted(samples(TTFT, documents)) if documents else []
        if values:
            shares = [(n + 1) / len(values) for n in range(len(values))]
            axes.plot(values, shares, color=_COLOURS[server.name], label=server.title)
    if axes.lines:
        plain_log(axes, "x")
        axes.legend()
    title = "W5: waits beside batch jobs" if workload == "W5" else "W4: waits"
    axes.set(title=title, xlabel="TTFT of short requests, ms", ylabel="share")
