"""What does the server itself say of the time to the first token, and of which parts is it made?

Read from its Prometheus series before and after a load: sums and counts are exact, quantiles of
histograms are not. A splitpool router has every part; vLLM and splitpool workers have two.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from splitpool_bench.exchange import Outcome

AGREES_WITHIN = 0.05
_ROUTER = "splitpool_router_"
_VLLM = "vllm:"
# Of one request each: what became of the whole, and parts that add up to it.
_OF_ROUTER = ("ttft_seconds", "ttft_queue_seconds", "ttft_prefill_seconds", "ttft_overhead_seconds")
_OF_VLLM = {
    "time_to_first_token_seconds": "ttft",
    "request_queue_time_seconds": "queue",
    "request_prefill_time_seconds": "prefill",
}

_ORDER = (
    *("receive", "parse", "tokenise", "queue", "prefill", "detokenise"),
    *("transport", "write", "retry"),
)

Samples: TypeAlias = dict[tuple[str, str], float]
"""By class ("" where the server knows none) and by what was summed: `ttft`, `n`, or a part."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """Means of one class over one load, in seconds."""

    latency_class: str
    by: str
    count: int
    ttft: float
    parts: Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """The client's mean TTFT beside the server's, and what lies between them."""

    served: Served
    count: int
    """Of the client's streams that had a first token."""
    ttft: float
    connect: float
    """Until a connection was there; the server's clock starts later."""

    @property
    def outside(self) -> float:
        """Neither in the server nor connecting: the network, and reading it in the client."""
        return self.ttft - self.connect - self.served.ttft

    def parts(self) -> dict[str, float]:
        """The client's TTFT in parts, in the order in which they happen as far as they have one."""
        served = {name: self.served.parts[name] for name in _ORDER if name in self.served.parts}
        return {"connect": self.connect, **served, "network, client": self.outside}

    @property
    def comparable(self) -> bool:
        """Both counted the same requests, within 2 %."""
        return abs(self.served.count - self.count) <= max(1, 0.02 * self.count)

    @property
    def agrees(self) -> bool:
        """Within 5 % of the client's."""
        return abs(self.ttft - self.served.ttft) <= AGREES_WITHIN * self.ttft

    def said(self) -> str:
        """A sentence: they agree, or which part differs."""
        name = self.served.latency_class or "all classes"
        if not self.comparable:
            return (
                f"{name}: the server counted {self.served.count} first tokens and the client "
                f"{self.count}: others use it too, or it has several replicas; not compared"
            )
        apart = (self.ttft - self.served.ttft) / self.ttft
        figures = (
            f"{name}: TTFT is {self.ttft * 1000:.1f} ms at the client and "
            f"{self.served.ttft * 1000:.1f} ms at the {self.served.by} (means)"
        )
        if self.agrees:
            return f"{figures}: {apart:+.1%}, they agree"
        return f"{figures}: {apart:+.1%} apart; {self._differs()}"

    def _differs(self) -> str:
        outside, connect = self.outside * 1000, self.connect * 1000
        if outside < 0:
            return f"the server counts {-outside:.1f} ms that the client did not wait for"
        if self.connect > self.outside:
            return f"connecting takes {connect:.1f} ms of it, before the server's clock starts"
        return f"the network and reading in the load generator take {outside:.1f} ms of it"


def sums(text: str, model: str) -> Samples | None:
    """Sums and counts of a text in Prometheus' format, of streamed answers of one model."""
    from prometheus_client.parser import text_string_to_metric_families

    found: dict[str, Samples] = {}
    try:
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                _note(found, sample.name, sample.labels, sample.value, model)
    except ValueError:
        return None
    return found.get(_ROUTER) or found.get(_VLLM)


def between(before: Samples | None, after: Samples | None) -> list[Served]:
    """What the server measured of the requests between two readings, by class."""
    if before is None or after is None:
        return []
    classes = sorted({cls for cls, _ in after})
    return [served for cls in classes if (served := _served(cls, before, after)) is not None]


def agreements(served: Iterable[Served], outcomes: Sequence[Outcome]) -> list[Agreement]:
    """The client's means beside the server's, for each class that it knows."""
    return [found for each in served if (found := _agreement(each, outcomes)) is not None]


def _note(
    found: dict[str, Samples], name: str, labels: Mapping[str, str], value: float, model: str
) -> None:
    origin = next((each for each in (_ROUTER, _VLLM) if name.startswith(each)), None)
    series, _, kind = name.removeprefix(origin or "").rpartition("_")
    if origin is None or kind not in ("sum", "count"):
        return
    if labels.get("model", labels.get("model_name", model)) != model:
        return
    if labels.get("stream", "true") != "true":
        return
    part = _router_part(series, labels) if origin == _ROUTER else _OF_VLLM.get(series)
    if part is None or (kind == "count" and part != "ttft"):
        return
    samples = found.setdefault(origin, {})
    key = (labels.get("class", ""), "n" if kind == "count" else part)
    samples[key] = samples.get(key, 0.0) + value


def _router_part(series: str, labels: Mapping[str, str]) -> str | None:
    if series not in _OF_ROUTER:
        return None
    return labels.get("part") or series.removesuffix("_seconds").removeprefix("ttft_")


def _served(cls: str, before: Samples, after: Samples) -> Served | None:
    def grown(what: str) -> float:
        return after.get((cls, what), 0.0) - before.get((cls, what), 0.0)

    count = grown("n")
    if count < 1:
        return None  # nothing of this class, or a server that started anew
    parts = [what for owner, what in after if owner == cls and what not in ("n", "ttft")]
    return Served(
        latency_class=cls,
        by="router" if "write" in parts else "server",
        count=round(count),
        ttft=grown("ttft") / count,
        parts={part: grown(part) / count for part in parts},
    )


def _agreement(served: Served, outcomes: Sequence[Outcome]) -> Agreement | None:
    mine = [
        each
        for each in outcomes
        if each.ttft is not None and served.latency_class in ("", each.latency_class)
    ]
    if not mine:
        return None
    connects = [each.connected - each.sent for each in mine if each.connected is not None]
    return Agreement(
        served=served,
        count=len(mine),
        ttft=sum(each.ttft or 0.0 for each in mine) / len(mine),
        connect=sum(connects) / len(mine),
    )
