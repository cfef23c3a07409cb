"""How many prefill tokens still fit into a step, from costs learned while running.

A step's seconds are modelled as base + decode * D + prefill * P + attend * A, where D and P count
tokens and A sums, over all tokens, the context each attends to. After each step every cost is
scaled by a power of observed / predicted, the more the larger its part in the prediction (least
mean squares in the logarithm): costs stay positive, a wrong prediction always gets better, and
steps of different kinds tell the costs apart.
"""

from dataclasses import dataclass
from math import exp, isinf, log, sqrt

FIRST_GUESS = (5e-3, 5e-4, 5e-4, 2e-7)
"""Only the proportions matter, the first step sets the scale; and that none is small, since a cost
with a small part in the prediction is learned slowly."""
RATE = 0.2
"""Part of an error that one step corrects: five to ten steps are averaged."""
OUTLIER = 2.0
"""A step that took this many times longer, or shorter, than predicted counts as that far off: a
single stall is not a cost."""
LONGEST_FILL = 1.5
"""Times the cost of its decodes that a step may take, be it longer than the longest allowed."""
MOST_ROWS = 1 << 20
"""Where an infinite step limits nothing."""
LEAST = 1e-12
"""Seconds: a cost that fell to nothing could never rise again."""
EARLY = 5
"""Steps that weigh more than later ones and may be as far off as they are: the first of all may
have been slow for reasons of its own."""


@dataclass(slots=True)
class StepWork:
    """What a step has to compute."""

    decodes: int = 0
    drafted: int = 0
    prefills: int = 0
    attended: int = 0
    attended_by_decodes: int = 0

    def decode(self, context: int) -> None:
        self.decodes += 1
        self.attended += context
        self.attended_by_decodes += context

    def draft(self, count: int, context: int) -> None:
        """Rows behind a decode's."""
        self.drafted += count
        self.attended += count * context
        self.attended_by_decodes += count * context

    def prefill(self, start: int, count: int) -> None:
        self.prefills += count
        self.attended += count * start + count * (count + 1) // 2

    def without_prefill(self) -> "StepWork":
        return StepWork(
            decodes=self.decodes, drafted=self.drafted, attended=self.attended_by_decodes
        )

    def features(self) -> tuple[float, ...]:
        return (1.0, self.decodes + self.drafted, self.prefills, self.attended)


class Pace:
    def __init__(self, max_step_s: float) -> None:
        self._max_step_s = max_step_s
        self._costs = list(FIRST_GUESS)
        self._steps = 0

    def predict(self, work: StepWork) -> float:
        """Seconds that a step with this work is expected to take."""
        return sum(cost * x for cost, x in zip(self._costs, work.features(), strict=True))

    def least_chance(self, work: StepWork, context: int) -> float:
        """From which chance on of being right a draft is worth its row: right, it saves a sequence
        its part of a step like this one."""
        return self._row(context) * work.decodes / self.predict(work)

    def spare_rows(self, work: StepWork, context: int, part: float) -> int:
        """How many rows that attend to `context` tokens still fit beside `work` into that part of
        the longest step."""
        spare = (part * self._max_step_s - self.predict(work)) / self._row(context)
        return max(0, int(min(spare, MOST_ROWS)))

    def _row(self, context: int) -> float:
        """Seconds of one more row like a decode's."""
        _, per_row, _, per_attended = self._costs
        return per_row + per_attended * context

    def room(
        self, work: StepWork, start: int, wanted: int, untrusted: int, part: float = 1.0
    ) -> int:
        """Of `wanted` prefill tokens at position `start`, how many still fit beside `work` into
        that part of the longest step.

        Before anything is learned a step carries at most `untrusted` prefill tokens. An infinite
        step limits nothing. Where decodes alone fill the step, prefill has a third of it still:
        in smaller bites the same prompt would hold up more steps, for longer in all.
        """
        if isinf(self._max_step_s):
            return wanted
        if not self._steps:
            return max(0, min(wanted, untrusted - work.prefills))
        fixed = self.predict(work.without_prefill())
        left = max(part * self._max_step_s, LONGEST_FILL * fixed) - self.predict(work)
        if left <= 0.0:
            return 0
        _, _, per_token, per_attended = self._costs
        # n tokens cost first * n + per_attended * n^2 / 2, since each attends to those before it.
        first = per_token + per_attended * (start + 0.5)
        return min(wanted, int(2 * left / (first + sqrt(first**2 + 2 * per_attended * left))))

    def observe(self, work: StepWork, seconds: float) -> None:
        """Learn from a step that ran."""
        self._steps += 1
        parts = [cost * x for cost, x in zip(self._costs, work.features(), strict=True)]
        predicted = sum(parts)
        ratio = max(seconds, LEAST) / predicted
        if self._steps == 1:
            self._costs = [max(LEAST, cost * ratio) for cost in self._costs]
            return
        if self._steps > EARLY:
            ratio = min(OUTLIER, max(1.0 / OUTLIER, ratio))
        error = max(RATE, 1.0 / self._steps) * log(ratio)
        weight = predicted / sum(part * part for part in parts)
        for i, part in enumerate(parts):
            self._costs[i] = max(LEAST, self._costs[i] * exp(error * part * weight))
