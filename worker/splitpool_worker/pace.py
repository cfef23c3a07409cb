"""How many prefill tokens still fit into a step of a given length, from costs learned while
running.

A step's seconds are modelled as base + decode * D + prefill * P + attend * A, where D and P count
tokens and A sums, over all tokens, the context each attends to. The four costs follow the observed
steps by recursive least squares with forgetting.
"""

from dataclasses import dataclass
from math import isinf

FORGET = 0.98
"""Weight of the past per step: a change of pace is believed after some tens of steps."""
OUTLIER = 4.0
"""A step this many times slower than predicted counts as this slow: a stall is not a cost."""
TRUSTED_AFTER = 3
"""Observations with prefill before predictions limit anything."""
SCALE = (1.0, 16.0, 128.0, 65536.0)
"""Typical size of each feature; keeps the regression's numbers near one."""
START_VARIANCE = 100.0
"""Of each cost before any step: knows nothing. Forgetting never goes back beyond it, else costs
that steps do not exercise would come to follow the noise of a single one."""


@dataclass(slots=True)
class StepWork:
    """What a step has to compute."""

    decodes: int = 0
    prefills: int = 0
    attended: int = 0

    def prefill(self, start: int, count: int) -> None:
        self.prefills += count
        self.attended += count * start + count * (count + 1) // 2

    def features(self) -> list[float]:
        raw = (1.0, self.decodes, self.prefills, self.attended)
        return [value / scale for value, scale in zip(raw, SCALE, strict=True)]


class Pace:
    def __init__(self, max_step_s: float) -> None:
        self._max_step_s = max_step_s
        self._costs = [0.0] * len(SCALE)
        self._variance = [
            [START_VARIANCE if row == column else 0.0 for column in range(len(SCALE))]
            for row in range(len(SCALE))
        ]
        self._prefills_seen = 0

    @property
    def trusted(self) -> bool:
        return self._prefills_seen >= TRUSTED_AFTER

    def predict(self, work: StepWork) -> float:
        """Seconds that a step with this work is expected to take."""
        return sum(cost * x for cost, x in zip(self._costs, work.features(), strict=True))

    def room(self, work: StepWork, start: int, wanted: int, untrusted: int) -> int:
        """Of `wanted` prefill tokens at position `start`, how many still fit beside `work`.

        Before anything is learned a step carries at most `untrusted` prefill tokens. An infinite
        step limits nothing.
        """
        if isinf(self._max_step_s):
            return wanted
        if not self.trusted:
            return max(0, min(wanted, untrusted - work.prefills))
        left = self._max_step_s - self.predict(work)
        if left <= 0.0:
            return 0
        per_token = self._costs[2] / SCALE[2]
        per_attended = self._costs[3] / SCALE[3]
        fits = wanted
        for _ in range(2):  # the mean context depends on the chunk itself: refine once
            cost = per_token + per_attended * (start + fits / 2)
            fits = min(wanted, int(left / cost)) if cost > 0.0 else wanted
        return fits

    def observe(self, work: StepWork, seconds: float) -> None:
        """Learn from a step that ran."""
        predicted = self.predict(work)
        if self.trusted and predicted > 0.0:
            seconds = min(seconds, OUTLIER * predicted)
        self._prefills_seen += work.prefills > 0
        self._learn(work.features(), seconds)

    def _learn(self, x: list[float], seconds: float) -> None:
        """One step of recursive least squares (Haykin, Adaptive Filter Theory), costs kept >= 0."""
        variance = self._variance
        carried = [sum(v * value for v, value in zip(row, x, strict=True)) for row in variance]
        trace = sum(row[i] for i, row in enumerate(variance))
        forget = FORGET if trace < START_VARIANCE * len(x) else 1.0
        below = forget + sum(value * c for value, c in zip(x, carried, strict=True))
        error = seconds - sum(cost * value for cost, value in zip(self._costs, x, strict=True))
        for i, change in enumerate(carried):
            self._costs[i] = max(0.0, self._costs[i] + error * change / below)
            for j in range(i + 1):
                shrunk = (variance[i][j] - change * carried[j] / below) / forget
                variance[i][j] = variance[j][i] = shrunk
