"""Everything that a measurement found, for whoever reports it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from splitpool_bench.exchange import Outcome
from splitpool_bench.measuring.goodput import Found
from splitpool_bench.measuring.options import Counting, Options
from splitpool_bench.measuring.point import Point, WarmUp


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One server: how it was asked, its first requests, its points."""

    url: str
    model: str
    counting: Counting
    warm_up: WarmUp
    points: Sequence[Point]
    goodput: Found | None = None
    repeated: bool = False
    """Whether the points are repeats of one load, to be read together."""

    @property
    def outcomes(self) -> list[Outcome]:
        """Of all points."""
        return [each for point in self.points for each in point.outcomes]

    @property
    def pools(self) -> list[Sequence[Outcome]]:
        """What each figure is made of: a point, or all repeats together."""
        if self.repeated:
            return [self.outcomes]
        return [point.outcomes for point in self.points]


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
            any(each.failure is None for each in server.outcomes)
            and (server.goodput is None or server.goodput.rate is not None)
            for server in self.servers
        )
