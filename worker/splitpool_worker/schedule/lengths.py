"""How long sequences of a class are expected to get, and which of them may share a static batch."""

from collections import deque
from collections.abc import Callable
from collections.abc import Sequence as Many

from splitpool_worker.schedule.sequence import Sequence

OBSERVED = 64
"""Finished outputs that the median is taken over."""


class Lengths:
    def __init__(self, longest: int) -> None:
        self._longest = longest
        self._outputs: deque[int] = deque(maxlen=OBSERVED)
        self._median: int | None = None

    def finished(self, outputs: int) -> None:
        self._outputs.append(outputs)
        self._median = sorted(self._outputs)[len(self._outputs) // 2]

    def expected(self, sequence: Sequence) -> int:
        """Prompt plus output. A max_tokens that reaches to the model's own limit is no estimate
        (the client gave none): the class's median output stands in for it."""
        whole = sequence.prompt_tokens + sequence.request.max_tokens
        if whole < self._longest or self._median is None:
            return whole
        return min(whole, sequence.prompt_tokens + max(self._median, sequence.outputs))


def similar(lengths: Many[int], candidate: int, ratio: float) -> bool:
    """Whether longest to shortest stays within `ratio` when the candidate joins."""
    if not lengths:
        return True
    return max(*lengths, candidate) <= ratio * min(*lengths, candidate)


def static_group(
    window: Many[Sequence], expected: Callable[[Sequence], int], ratio: float, size: int
) -> list[Sequence]:
    """The oldest and, oldest first, those who may share its batch: of similar length, and none that
    does not stream outliving the longest that does."""
    group: list[Sequence] = []
    lengths: list[int] = []
    for sequence in window:
        length = expected(sequence)
        if len(group) == size:
            break
        if similar(lengths, length, ratio) and _streams_end_last(group, sequence, expected):
            group.append(sequence)
            lengths.append(length)
    return group


def _streams_end_last(
    group: list[Sequence], candidate: Sequence, expected: Callable[[Sequence], int]
) -> bool:
    members = [*group, candidate]
    streaming = [expected(s) for s in members if s.request.stream]
    others = [expected(s) for s in members if not s.request.stream]
    return not streaming or not others or max(others) <= max(streaming)
