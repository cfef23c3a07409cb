"""What is asked of a server, and what came back?"""

from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

Endpoint = Literal["completions", "chat"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What is asked: a streamed completion of a fixed length, unless told otherwise."""

    prompt: str
    max_tokens: int
    latency_class: str
    temperature: float = 0.0
    ignore_eos: bool = True
    prompt_tokens: int = 0
    """How long the prompt was meant to be, for servers that do not say how long it was."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came back: `sent`, `content_times` and `ended` are readings of the same clock."""

    latency_class: str
    sent: float
    ended: float
    content_times: tuple[float, ...] = ()
    prompt_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    counted: bool = True
    """Whether the server's `usage` counted the tokens; else each event is taken as one."""
    connected: float | None = None
    """When a connection was there to send on."""
    text: str = ""
    failure: str | None = None
    detail: str = ""
    """What the server said about a failure."""

    @property
    def ttft(self) -> float | None:
        """First content received - request sent."""
        return self.content_times[0] - self.sent if self.content_times else None

    @property
    def tpot(self) -> float | None:
        """(last token - first token) / (output tokens - 1); tokens are those of `usage`."""
        if self.output_tokens < 2 or not self.content_times:
            return None
        return (self.content_times[-1] - self.content_times[0]) / (self.output_tokens - 1)

    @property
    def gaps(self) -> list[float]:
        """Inter-token latencies, as gaps between events with content."""
        return [b - a for a, b in pairwise(self.content_times)]

    @property
    def e2e(self) -> float:
        """Last byte - request sent."""
        return self.ended - self.sent
