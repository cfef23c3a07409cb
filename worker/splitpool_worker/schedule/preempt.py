"""Which sequence gives up its blocks when a class has none left."""

from collections.abc import Iterable

from splitpool_worker.schedule.sequence import Sequence

MAX_PREEMPTIONS = 2
"""A sequence that lost its work this often is not preempted again (unless its client is gone); it
comes back only with blocks for its whole length, so it never needs another's."""


def exempt(sequence: Sequence) -> bool:
    return sequence.preemptions >= MAX_PREEMPTIONS and not sequence.orphan


def victim(holders: Iterable[Sequence]) -> Sequence | None:
    """Orphans first, then the one with the least computed work to lose."""
    return min(
        (sequence for sequence in holders if not exempt(sequence)),
        key=lambda sequence: (not sequence.orphan, sequence.computed),
        default=None,
    )
