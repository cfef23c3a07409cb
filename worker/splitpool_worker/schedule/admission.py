"""Which waiting sequences of a class may start now, and in which order they are tried."""

from collections.abc import Container
from collections.abc import Sequence as Many

from splitpool_worker.schedule.lane import Lane
from splitpool_worker.schedule.lengths import similar, static_group
from splitpool_worker.schedule.sequence import Sequence

WINDOW = 16
"""Admission looks this far past a head that does not fit: bounded work however many wait."""
PATIENCE = 8
"""One passed over in this many iterations is next: no rule of order applies to it any more, and the
blocks that come free are kept for it."""


def gathering(lane: Lane, now: float) -> bool:
    """Continuous mode: whether newcomers are held back to be admitted together, so that fewer
    steps of those who run are interrupted by prefill."""
    oldest = lane.waiting.oldest()
    if oldest is None or not lane.running or oldest.first_scheduled is not None:
        return False
    if lane.waiting.clients >= lane.free_slots() or any(
        not sequence.decoding for sequence in lane.running.values()
    ):
        return False
    return now < oldest.submitted + lane.limits.max_wait_s


def in_order(lane: Lane) -> list[Sequence]:
    """Continuous mode: the oldest who wait, first those whose patience is at its end, then those
    of a length like the ones that run, then the others."""
    window = lane.waiting.window(WINDOW)
    ratio = lane.limits.max_length_ratio
    lengths = [lane.lengths.expected(sequence) for sequence in lane.running.values()]

    def rank(sequence: Sequence) -> int:
        if impatient(sequence):
            return 0
        return 1 if similar(lengths, lane.lengths.expected(sequence), ratio) else 2

    return sorted(window, key=rank)


def impatient(sequence: Sequence) -> bool:
    return sequence.skipped >= PATIENCE


def passed_over(
    window: Many[Sequence], started: Container[str], refused: Container[str]
) -> list[Sequence]:
    """Of those who waited, oldest first: who did not fit or saw a younger one start."""
    youngest = max((i for i, sequence in enumerate(window) if sequence.id in started), default=-1)
    return [
        sequence
        for i, sequence in enumerate(window)
        if sequence.id not in started and (i < youngest or sequence.id in refused)
    ]


def static_batch(lane: Lane, now: float) -> tuple[list[Sequence], float | None]:
    """Static mode: the members of the next batch, or none yet and when to look again."""
    oldest = lane.waiting.oldest()
    if lane.running or oldest is None:
        return [], None
    size = lane.limits.max_batch
    window = lane.waiting.window(max(WINDOW, 4 * size))
    group = static_group(window, lane.lengths.expected, lane.limits.max_length_ratio, size)
    due = oldest.submitted + lane.limits.max_wait_s
    if len(group) == size or now >= due or oldest.first_scheduled is not None:
        return group, None
    return [], due
