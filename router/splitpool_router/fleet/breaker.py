"""Whether a worker that kept failing may be tried again."""

from enum import Enum

_FAILURES = 5
_COOL_DOWN = 10.0


class Verdict(Enum):
    """What one answer says about the worker's health."""

    GOOD = "good"
    NEUTRAL = "neutral"
    BAD = "bad"


def verdict(status: int) -> Verdict:
    """4xx is the client's doing; 429 and 503 are a busy worker's, not a broken one's."""
    if status in (429, 503):
        return Verdict.NEUTRAL
    return Verdict.BAD if status in (500, 502, 504) else Verdict.GOOD


class Breaker:
    """Opens after failures in a row; after a cool-down lets exactly one trial through."""

    __slots__ = ("_failures", "_opened", "_trial")

    def __init__(self) -> None:
        self._failures = 0
        self._opened: float | None = None
        self._trial = False

    def allows(self, now: float) -> bool:
        """Whether a request may go to the worker now."""
        if self._opened is None:
            return True
        return not self._trial and now - self._opened >= _COOL_DOWN

    def begin(self) -> bool:
        """A request goes to the worker; true when it is the trial of an open breaker."""
        if self._opened is None:
            return False
        self._trial = True
        return True

    def end(self, outcome: Verdict, now: float, *, trial: bool) -> None:
        """What became of a request; a neutral end only frees the trial's place."""
        if trial:
            self._trial = False
        if outcome is Verdict.GOOD:
            self._failures = 0
            self._opened = None
        elif outcome is Verdict.BAD:
            self._failures += 1
            if self._failures >= _FAILURES:
                self._opened = now
