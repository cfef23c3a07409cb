"""How far a phase is, on one terminal line, or in a few lines where there is no terminal."""

import math
import sys
import time

from splitpool_bench.exchange import Outcome
from splitpool_bench.stats import quantile

QUIET_SECONDS = 20.0  # between two lines of a log
REDRAW_SECONDS = 0.1  # between two on a terminal: drawing costs the load generator time


class Progress:
    """Counts the outcomes of one phase; pass `progress.watch` to a load."""

    def __init__(self, phase: str, total: int | None) -> None:
        """total: None where a phase lasts for a time; then `end` tells the end."""
        self._phase = phase
        self._total = total
        self._ttfts: list[float] = []
        self._done = 0
        self._failed = 0
        self._terminal = sys.stderr.isatty()
        self._interval = REDRAW_SECONDS if self._terminal else QUIET_SECONDS
        self._next_line = time.monotonic() + self._interval

    def watch(self, outcome: Outcome) -> None:
        """Note one outcome and redraw the line."""
        self._done += 1
        self._failed += outcome.failure is not None
        if outcome.ttft is not None:
            self._ttfts.append(outcome.ttft)
        last = self._done == self._total
        if last or time.monotonic() >= self._next_line:
            self._draw(last)

    def end(self) -> None:
        """The phase is over; drawn where the last outcome could not tell."""
        if self._done != self._total:
            self._draw(last=True)

    def _draw(self, last: bool) -> None:
        self._next_line = time.monotonic() + self._interval
        start, end = ("\r", "\n" if last else "") if self._terminal else ("", "\n")
        of = "" if self._total is None else f"/{self._total}"
        print(
            f"{start}{self._phase}: {self._done}{of}, {self._failed} failed{self._ttft()}",
            end=end,
            file=sys.stderr,
            flush=True,
        )

    def _ttft(self) -> str:
        p50, p99 = (quantile(self._ttfts, q) * 1000 for q in (0.5, 0.99))
        return "" if math.isnan(p50) else f", TTFT p50 {p50:.0f} p99 {p99:.0f} ms"
