"""How far a phase is, on one terminal line, or in a few lines where there is no terminal."""

import sys
import time

from splitpool_bench.client import Outcome
from splitpool_bench.stats import quantile

QUIET_SECONDS = 20.0  # between two lines of a log


class Progress:
    """Counts the outcomes of one phase; pass `progress.watch` to a load."""

    def __init__(self, phase: str, total: int) -> None:
        self._phase = phase
        self._total = total
        self._ttfts: list[float] = []
        self._done = 0
        self._failed = 0
        self._terminal = sys.stderr.isatty()
        self._next_line = time.monotonic() + QUIET_SECONDS

    def watch(self, outcome: Outcome) -> None:
        """Note one outcome and redraw the line."""
        self._done += 1
        self._failed += outcome.failure is not None
        if outcome.ttft is not None:
            self._ttfts.append(outcome.ttft)
        last = self._done == self._total
        if self._terminal or last or time.monotonic() >= self._next_line:
            self._draw(last)

    def _draw(self, last: bool) -> None:
        self._next_line = time.monotonic() + QUIET_SECONDS
        p50, p99 = (quantile(self._ttfts, q) * 1000 for q in (0.5, 0.99))
        start, end = ("\r", "\n" if last else "") if self._terminal else ("", "\n")
        print(
            f"{start}{self._phase}: {self._done}/{self._total}, {self._failed} failed, "
            f"TTFT p50 {p50:.0f} p99 {p99:.0f} ms",
            end=end,
            file=sys.stderr,
            flush=True,
        )
