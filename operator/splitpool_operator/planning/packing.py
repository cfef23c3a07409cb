"""Which workers of two sizes go onto which of several equal GPUs? Exact, not a heuristic.

One GPU is described by `most_beside`: `most_beside[x]` is the largest number of batch workers
that fit beside x interactive ones; its length bounds x.
"""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """The workers on one GPU."""

    interactive: int
    batch: int


def pack(
    *, gpus: int, interactive: int, batch: int, most_beside: Sequence[int]
) -> list[Load] | None:
    """A load per GPU that places every worker, or None if none exists. Spreads where it can."""
    spread = _spread(gpus, interactive, batch, most_beside)
    if spread is not None:
        return spread
    best, choices = _fill(gpus, interactive, most_beside)
    if best[interactive] < batch:
        return None
    return _trace(choices, interactive, batch, most_beside)


def most_batch(*, gpus: int, interactive: int, most_beside: Sequence[int]) -> int:
    """The most batch workers that fit beside so many interactive ones; -1 if those do not fit."""
    best, _ = _fill(gpus, interactive, most_beside)
    return best[interactive]


def _spread(
    gpus: int, interactive: int, batch: int, most_beside: Sequence[int]
) -> list[Load] | None:
    """Interactive then batch workers, each onto the emptiest GPU that has room; None if stuck."""
    loads = [[0, 0] for _ in range(gpus)]
    for column, count in ((0, interactive), (1, batch)):
        for _ in range(count):
            room = [load for load in loads if _fits(load, column, most_beside)]
            if not room:
                return None
            min(room, key=sum)[column] += 1
    return [Load(interactive=x, batch=y) for x, y in loads]


def _fits(load: list[int], column: int, most_beside: Sequence[int]) -> bool:
    x, y = load[0] + (column == 0), load[1] + (column == 1)
    return x < len(most_beside) and y <= most_beside[x]


def _fill(
    gpus: int, interactive: int, most_beside: Sequence[int]
) -> tuple[list[int], list[list[int]]]:
    """Dynamic programme over GPUs: the most batch workers for every number of interactive ones.

    best[i] covers the GPUs so far; choices[g][i] is how many interactive workers GPU g takes.
    """
    best = [0] + [-1] * interactive
    choices: list[list[int]] = []
    for _ in range(gpus):
        grown, chosen = list(best), [0] * (interactive + 1)
        for i in range(interactive + 1):
            options = (
                (best[i - x] + most_beside[x], x)
                for x in range(min(i, len(most_beside) - 1) + 1)
                if best[i - x] >= 0
            )
            grown[i], chosen[i] = max(options, default=(-1, 0))
        best = grown
        choices.append(chosen)
    return best, choices


def _trace(
    choices: list[list[int]], interactive: int, batch: int, most_beside: Sequence[int]
) -> list[Load]:
    loads = []
    for chosen in reversed(choices):
        x = chosen[interactive]
        y = min(batch, most_beside[x])
        loads.append(Load(interactive=x, batch=y))
        interactive, batch = interactive - x, batch - y
    return loads[::-1]
