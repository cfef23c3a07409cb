"""What was asked of a measurement: the server, the load, the targets, where the report goes."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from splitpool_bench.exchange import Endpoint
from splitpool_bench.measuring.planned import Mix, Planned

LEAST_REPEATS = 3
"""Of a comparison: fewer have no spread."""

Process = Literal["poisson", "constant"]
Counting = Literal["tokenizer", "usage", "bytes"]
"""Who counts the tokens of a text that is made for a server."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenLoop:
    """Arrivals set in advance, at one rate after the other (requests a second)."""

    rates: tuple[float, ...]
    process: Process = "poisson"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClosedLoop:
    """So many users, each with a new request when the last one ends."""

    users: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """The arrivals of a trace file."""

    file: Path
    requests: tuple[Planned, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Targets:
    """What users accept, in seconds; None: anything."""

    ttft_p99: float | None = None
    tpot_p99: float | None = None

    def __str__(self) -> str:
        named = {"TTFT p99": self.ttft_p99, "TPOT p99": self.tpot_p99}
        return " and ".join(f"{n} <= {v * 1000:g} ms" for n, v in named.items() if v is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Goodput:
    """Find the highest rate that keeps the targets, starting at `first`, to within `precision`."""

    first: float = 1.0
    precision: float = 0.1
    process: Process = "poisson"


Load: TypeAlias = OpenLoop | ClosedLoop | Replay | Goodput


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """Where it is and how it is asked."""

    url: str
    model: str | None = None
    """None: the only one that it has."""
    endpoint: Endpoint = "completions"
    key: str | None = None
    metrics_url: str | None = None
    """None: its own /metrics."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Everything that one measurement needs to know."""

    load: Load
    mix: Mix
    requests: int
    """Of every point of the load; a trace has its own number."""
    seconds: float | None = None
    """A point lasts so long instead."""
    seed: int = 1
    """Of arrivals and lengths, which repeat with it."""
    words: str = ""
    """Seed of the words, new for each measurement: a prefix cache may know those of the last."""
    warm_up: int = 8
    timeout: float = 300.0
    shared_prefix: int = 0
    ignore_eos: bool = True
    beside: int = 0
    """Requests of the other class always in flight."""
    targets: Targets = Targets()
