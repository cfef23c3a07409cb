"""How full a class's slots were: sequences that got tokens over slots times steps."""

from collections import deque
from collections.abc import Sequence as Many
from typing import Protocol

WINDOW_STEPS = 256


class Utilisation(Protocol):
    @property
    def ratio(self) -> float: ...

    def step(self, produced: int) -> None:
        """A step of the class ended and gave this many sequences tokens."""

    def left(self, outputs: int, *, last: bool) -> None:
        """A running sequence left after so many outputs, as the last one or not."""


class ContinuousUtilisation:
    """Over the last steps of a batch whose `slots` are filled again as they come free."""

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._steps: deque[int] = deque(maxlen=WINDOW_STEPS)
        self._produced = 0

    @property
    def ratio(self) -> float:
        steps = len(self._steps)
        return self._produced / (self._slots * steps) if steps else 0.0

    def step(self, produced: int) -> None:
        if len(self._steps) == WINDOW_STEPS:
            self._produced -= self._steps[0]
        self._steps.append(produced)
        self._produced += produced

    def left(self, outputs: int, *, last: bool) -> None:
        pass


class StaticUtilisation:
    """Of the last whole batch: its slots stay taken until its longest member ends."""

    def __init__(self) -> None:
        self._outputs: list[int] = []
        self.ratio = 0.0

    def step(self, produced: int) -> None:
        pass

    def left(self, outputs: int, *, last: bool) -> None:
        self._outputs.append(outputs)
        if last:
            self.ratio = mean_over_longest(self._outputs)
            self._outputs = []


def mean_over_longest(outputs: Many[int]) -> float:
    longest = max(outputs, default=0)
    return sum(outputs) / (len(outputs) * longest) if longest else 0.0
