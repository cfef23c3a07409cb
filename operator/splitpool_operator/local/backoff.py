"""How long does a process that ended wait before it is started again?"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """Exponential delays that start over once a process has been ready for long enough."""

    first: float = 0.5
    factor: float = 2.0
    longest: float = 30.0
    forgiven_after: float = 60.0

    def delay(self, failures: int) -> float:
        """Seconds before the next start after so many failures in a row (1 or more)."""
        growth = min(failures - 1, 64)
        return min(self.longest, self.first * self.factor**growth)

    def failures(self, before: int, ready_seconds: float) -> int:
        """Failures in a row, once a process that was ready for so long has ended."""
        return 1 if ready_seconds >= self.forgiven_after else before + 1
