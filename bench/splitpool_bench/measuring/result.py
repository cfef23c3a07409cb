"""Everything that a measurement found, for whoever reports it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from splitpool_bench.measuring.goodput import Found
from splitpool_bench.measuring.options import Options
from splitpool_bench.measuring.point import Point
from splitpool_bench.measuring.running import WarmUp
from splitpool_bench.measuring.target import Counting


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One server: how it was asked, its first requests, its points."""

    url: str
    model: str
    counting: Counting
    warm_up: WarmUp
    points: Sequence[Point]
    goodput: Found | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """A measurement: what was asked, on which machine, and one server or two."""

    options: Options
    about: dict[str, Any]
    servers: Sequence[Measured]
    interrupted: bool = False

    @property
    def succeeded(self) -> bool:
        """Some request of every server was answered, and a rate was found where one was sought."""
        return all(
            any(each.failure is None for point in server.points for each in point.outcomes)
            and (server.goodput is None or server.goodput.rate is not None)
            for server in self.servers
        )
