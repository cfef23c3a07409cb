"""Which workers of two sizes go onto which of several equal GPUs? Exact, not a heuristic.

One GPU is described by `most_beside`: `most_beside[x]` is the largest number of batch workers
that fit beside x interactive ones; its length bounds x.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache


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


@lru_cache(maxsize=4096)
def room(*, gpus: int, most: int, most_beside: tuple[int, ...]) -> tuple[int, ...]:
    """The most batch workers that fit beside 0, 1, ... `most` interactive ones; -1 if none do."""
    best, _ = _fill(gpus, most, most_beside)
    return tuple(best)


def fits_in_any_order(
    *, gpus: int, interactive: int, batch: int, most_beside: Sequence[int]
) -> bool:
    """Whether every worker finds room however a scheduler places them, one after the other.

    Batch workers are stuck where every GPU holds as many as fit beside its interactive ones, and
    these are spread so that the fewest do; and the other way round.
    """
    most_interactive = _turned(most_beside)
    return (
        _fewest(gpus, interactive, most_beside) >= batch
        and _fewest(gpus, batch, most_interactive) >= interactive
    )


def _turned(most_beside: Sequence[int]) -> list[int]:
    """The most interactive workers beside y batch ones on one GPU."""
    return [
        max(x for x, beside in enumerate(most_beside) if beside >= y)
        for y in range(max(most_beside, default=0) + 1)
    ]


def _fewest(gpus: int, count: int, most_beside: Sequence[int]) -> int:
    """The fewest others that can fill every GPU when at most `count` of these are spread over them.

    fewest[i] covers the GPUs so far with i of these placed.
    """
    unreached = gpus * (max(most_beside, default=0) + 1)
    fewest = [0] + [unreached] * count
    for _ in range(gpus):
        fewest = [
            min(fewest[i - x] + most_beside[x] for x in range(min(i, len(most_beside) - 1) + 1))
            for i in range(count + 1)
        ]
    return min(fewest)


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
