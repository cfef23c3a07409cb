"""One point of a measurement: a load that was offered, and what came of it."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from splitpool_bench.exchange import Outcome
from splitpool_bench.measuring.generator import Generator
from splitpool_bench.measuring.served import Agreement

Loop = Literal["open", "closed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """Outcomes of one load with everything that says how far they can be trusted."""

    name: str
    loop: Loop
    rate: float | None
    """Requests a second that were offered; None in a closed loop, which offers what is taken."""
    seed: int
    began: float
    last_start: float
    outcomes: Sequence[Outcome]
    beside: Sequence[Outcome] = ()
    """Requests of the other class that were always in flight."""
    generator: Generator
    agreements: Sequence[Agreement] = field(default_factory=list)

    @property
    def seconds(self) -> float:
        """From the first start to the last byte."""
        return max((each.ended for each in self.outcomes), default=self.began) - self.began

    @property
    def output_tokens_per_second(self) -> float:
        """Over the whole load, its start and its end included."""
        seconds = self.seconds
        tokens = sum(each.output_tokens for each in self.outcomes)
        return tokens / seconds if seconds > 0 else 0.0

    @property
    def requests_per_second(self) -> float:
        """That were answered."""
        seconds = self.seconds
        return sum(each.failure is None for each in self.outcomes) / seconds if seconds > 0 else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmUp:
    """What the first requests took, apart from what is measured; seconds."""

    first_ttft: float | None
    outcomes: Sequence[Outcome]
