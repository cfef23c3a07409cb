"""What do the measurements of one server under one workload amount to? Pure.

A figure is a row of samples and what is made of them: the median of requests or of repeats, or the
99th percentile of the short requests of all repeats together.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from peers.workloads import Workload
from splitpool_bench.stats import Statistic, p99, quantile

Document = Mapping[str, Any]
Measured = Mapping[tuple[str, Workload], Sequence[Document]]
"""Measurements by server and workload, in the order of their repeats."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A figure: its name and unit, its samples in one measurement, and the statistic over them."""

    name: str
    unit: str
    samples: Callable[[Document], list[float]]
    statistic: Statistic = median
    of_repeats: bool = False
    """Whether a repeat is one sample."""


def point(document: Document) -> Mapping[str, Any]:
    """The only point of a measurement."""
    found: Mapping[str, Any] = document["servers"][0]["points"][0]
    return found


def short_requests(document: Document) -> list[Mapping[str, Any]]:
    """Those of people who wait; batch jobs are left out."""
    return [each for each in point(document)["requests"] if each["class"] == "interactive"]


def failed(documents: Iterable[Document]) -> int:
    """Requests without a whole answer."""
    return sum(
        each["failure"] is not None
        for document in documents
        for each in point(document)["requests"]
    )


def by_server(documents: Iterable[Document]) -> dict[tuple[str, Workload], list[Document]]:
    """Grouped, each group in the order of its repeats."""
    found: dict[tuple[str, Workload], list[Document]] = {}
    for document in sorted(documents, key=lambda each: int(each["repeat"])):
        found.setdefault((document["server"], document["workload"]), []).append(document)
    return found


def samples(kind: Kind, documents: Iterable[Document]) -> list[float]:
    """Of all repeats."""
    return [value for document in documents for value in kind.samples(document)]


def _known(document: Document, name: str, scale: float = 1000) -> list[float]:
    return [each[name] * scale for each in short_requests(document) if each[name] is not None]


def _decode_rate(document: Document) -> list[float]:
    return [1 / each["tpot"] for each in short_requests(document) if each["tpot"]]


def _total_rate(document: Document) -> list[float]:
    """Prompts and answers of all classes, from the first start to the last byte."""
    found = point(document)
    tokens = sum(each["input"] + each["output"] for each in found["requests"])
    return [tokens / found["seconds"]] if found["seconds"] else []


def _of_point(name: str) -> Callable[[Document], list[float]]:
    return lambda document: [point(document)[name]]


def _p50(values: Sequence[float]) -> float:
    return quantile(values, 0.5)


DECODE = Kind(name="decode", unit="tokens/s", samples=_decode_rate)
OUTPUT = Kind(
    name="output",
    unit="tokens/s",
    samples=_of_point("output_tokens_per_second"),
    of_repeats=True,
)
REQUESTS = Kind(
    name="answered",
    unit="requests/s",
    samples=_of_point("requests_per_second"),
    of_repeats=True,
)
TOTAL = Kind(name="prompts and outputs", unit="tokens/s", samples=_total_rate, of_repeats=True)
TTFT = Kind(name="TTFT p50", unit="ms", samples=lambda d: _known(d, "ttft"), statistic=_p50)
TTFT_P99 = Kind(name="TTFT p99", unit="ms", samples=lambda d: _known(d, "ttft"), statistic=p99)
TPOT = Kind(name="TPOT p50", unit="ms", samples=lambda d: _known(d, "tpot"), statistic=_p50)
TPOT_P99 = Kind(name="TPOT p99", unit="ms", samples=lambda d: _known(d, "tpot"), statistic=p99)

SHOWN: Mapping[Workload, Sequence[Kind]] = {
    "W1": (DECODE, TTFT),
    "W2": (OUTPUT, REQUESTS, TTFT, TTFT_P99, TPOT),
    "W3": (TTFT, DECODE),
    "W4": (TTFT, TTFT_P99, TPOT, TPOT_P99, TOTAL),
    "W5": (TTFT, TTFT_P99, TPOT, TPOT_P99, TOTAL),
}


def rate(measured: Measured, peers: Iterable[str], share: float) -> tuple[float, str] | None:
    """Requests a second of W4 and W5, and whose W2 they come from; None where no peer has one."""
    rates = [
        (median(samples(REQUESTS, documents)) * share, name)
        for name in peers
        if (documents := measured.get((name, "W2")))
    ]
    return max(rates, default=None)
