"""Does the TTFT alert fire? As Prometheus evaluates the chart's rule, with its default windows."""

from dataclasses import dataclass

from splitpool_bench.scaling.pool import Counts


@dataclass(slots=True)
class Alert:
    """SplitpoolTTFTP99High; seconds."""

    window: int = 300
    pending_for: float = 120.0
    keep_firing_for: float = 300.0
    objective: float = 0.99
    least_rate: float = 0.1
    firing: bool = False
    _since: float | None = None
    _last: float = 0.0

    def evaluate(self, counts: Counts, now: float) -> bool:
        """Whether it fires now; to be asked again and again."""
        if self._holds(counts, int(now)):
            self._since = now if self._since is None else self._since
            self._last = now
            self.firing = self.firing or now - self._since >= self.pending_for
        else:
            self._since = None
            self.firing = self.firing and now - self._last < self.keep_firing_for
        return self.firing

    def _holds(self, counts: Counts, now: int) -> bool:
        start = max(0, now - self.window)
        hits, misses = sum(counts.hits[start:now]), sum(counts.misses[start:now])
        enough = hits + misses > self.least_rate * self.window
        return enough and hits / (hits + misses) < self.objective
