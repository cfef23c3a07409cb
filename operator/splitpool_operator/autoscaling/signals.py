"""What was measured of one class, and can it be relied on?"""

import math
from dataclasses import astuple, dataclass

# Fewer first tokens a second say nothing about a p99; the alert has the same floor.
LEAST_RATE = 0.1
# A tenth of the requests late is ten times what the p99 allows: no noise around the target.
_SEVERE_SHARE = 0.9
OBJECTIVE = 0.99


@dataclass(frozen=True, slots=True, kw_only=True)
class Signals:
    """One class of one pool, over all routers. Rates are a second, peaks the quiet window's."""

    # Seconds since the oldest of the newest samples, and of the quiet window those with any.
    age: float
    observed: float
    # The TTFT alert: now, and at any time of the quiet window.
    firing: bool = False
    fired: bool = False
    # Streamed requests by whether they met the target, shed and late ones among them.
    rate: float = 0.0
    within: float = 0.0
    peak_rate: float = 0.0
    # Requests that were turned away because the queue was full or too slow.
    refused: float = 0.0
    # p99 in seconds; None where there was no first token.
    ttft: float | None = None
    queue: float | None = None
    service: float | None = None
    # Requests.
    waiting: float = 0.0
    peak_waiting: float = 0.0
    running: float = 0.0
    peak_running: float = 0.0
    # Tokens that wait or run, and tokens read and written a second.
    backlog: float = 0.0
    peak_backlog: float = 0.0
    throughput: float = 0.0

    @property
    def share(self) -> float | None:
        """Of the streamed requests, those that met the target; None without traffic."""
        return self.within / self.rate if self.rate >= LEAST_RATE else None

    @property
    def missing(self) -> bool:
        """Whether the target is missed now: an alert fires on for a while when it no longer is."""
        if self.share is None:
            return self.waiting > 0 or self.refused > 0
        return self.share < OBJECTIVE

    @property
    def severe(self) -> bool:
        """Whether the target is missed by far more than noise around it."""
        return self.share is not None and self.share < _SEVERE_SHARE

    @property
    def queueing(self) -> bool | None:
        """Whether waiting is what makes first tokens late; None where nothing tells."""
        if self.refused > (1 - OBJECTIVE) * max(self.rate, LEAST_RATE):
            return True
        if self.queue is not None and self.service is not None:
            return self.queue >= self.service
        return True if self.waiting > 0 else None


def trouble(signals: Signals, stale: float) -> str | None:
    """Why the signals say nothing, or None; stale: seconds."""
    if not all(math.isfinite(each) for each in astuple(signals) if each is not None):
        return "what is measured is not a number"
    if signals.age > stale:
        return f"the last sample is older than {stale:g} s"
    return None
