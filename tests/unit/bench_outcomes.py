"""Outcomes as a load leaves them, made up for tests of what is computed from them."""

from typing import Any

from splitpool_bench.exchange import Outcome
from splitpool_bench.measuring.generator import Generator
from splitpool_bench.measuring.point import Point

IDLE = Generator(late_p99=0.0, lag_p99=0.0, cpu=0.1)


def outcome(
    sent: float = 0.0, *, ttft: float = 0.1, tpot: float = 0.01, tokens: int = 5, **other: Any
) -> Outcome:
    """A stream of evenly spaced tokens."""
    times = tuple(sent + ttft + n * tpot for n in range(tokens))
    fields: dict[str, Any] = {
        "latency_class": "interactive",
        "sent": sent,
        "ended": times[-1],
        "content_times": times,
        "output_tokens": tokens,
        "prompt_tokens": 100,
        **other,
    }
    return Outcome(**fields)


def refused(sent: float = 0.0, status: int = 429) -> Outcome:
    """One that got no answer."""
    return Outcome(
        latency_class="interactive", sent=sent, ended=sent, failure=f"http {status}", detail="full"
    )


def point(*outcomes: Outcome, **other: Any) -> Point:
    """A load of these outcomes."""
    fields: dict[str, Any] = {
        "name": "poisson, 1/s",
        "loop": "open",
        "rate": 1.0,
        "seed": 1,
        "began": 0.0,
        "last_start": max((each.sent for each in outcomes), default=0.0),
        "outcomes": outcomes,
        "generator": IDLE,
        **other,
    }
    return Point(**fields)
