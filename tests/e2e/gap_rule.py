"""When two greedy answers count as the same: equal tokens, but for near ties.

Batching, chunks and prefix hits reorder floating-point sums. So two answers may part where the two
most likely tokens were closer than a gap, and only in one prompt of ten.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

GAP_BF16 = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class Greedy:
    """A greedy answer: its tokens, and at each the distance of the two best log-probabilities."""

    tokens: tuple[str, ...]
    gaps: tuple[float, ...]

    @classmethod
    def of(cls, answer: dict[str, Any]) -> "Greedy":
        """From a completion with `logprobs: 2`."""
        logprobs = answer["choices"][0]["logprobs"]
        best = [sorted(top.values(), reverse=True) for top in logprobs["top_logprobs"]]
        gaps = tuple(top[0] - top[1] if len(top) > 1 else float("inf") for top in best)
        return cls(tokens=tuple(logprobs["tokens"]), gaps=gaps)


def differences(expected: Sequence[Greedy], found: Sequence[Greedy], gap: float = GAP_BF16) -> int:
    """How many answers differ; one that parts where there was no near tie is an error."""
    count = 0
    for number, (one, other) in enumerate(zip(expected, found, strict=True)):
        parted = _first_difference(one, other)
        if parted is None:
            continue
        count += 1
        near_tie = one.gaps[parted] < gap
        assert near_tie, f"prompt {number}, token {parted}: {one.tokens} is not {other.tokens}"
    return count


def assert_same(expected: Sequence[Greedy], found: Sequence[Greedy]) -> None:
    """All answers are the same by the gap rule."""
    assert differences(expected, found) <= max(1, len(expected) // 10)


def _first_difference(one: Greedy, other: Greedy) -> int | None:
    assert len(one.tokens) == len(other.tokens)
    pairs = zip(one.tokens, other.tokens, strict=True)
    return next((index for index, (a, b) in enumerate(pairs) if a != b), None)
