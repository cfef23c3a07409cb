"""Who waits in a class: clients in the order they came, and behind all of them the orphans."""

from collections import OrderedDict
from itertools import islice

from splitpool_worker.schedule.sequence import Sequence


class Waiting:
    """Every operation costs the same however many wait."""

    def __init__(self) -> None:
        self._clients: OrderedDict[str, Sequence] = OrderedDict()
        self._orphans: OrderedDict[str, Sequence] = OrderedDict()
        self._outstanding: dict[str, int] = {}
        self.tokens = 0
        """Tokens that all who wait have still to compute."""

    def __len__(self) -> int:
        return len(self._clients) + len(self._orphans)

    @property
    def clients(self) -> int:
        return len(self._clients)

    @property
    def orphans(self) -> int:
        return len(self._orphans)

    def push(self, sequence: Sequence) -> None:
        self._line(sequence)[sequence.id] = sequence
        self._outstanding[sequence.id] = sequence.outstanding
        self.tokens += sequence.outstanding

    def push_front(self, sequence: Sequence) -> None:
        """For one that was already admitted once: it is older than those who never were."""
        self.push(sequence)
        self._line(sequence).move_to_end(sequence.id, last=False)

    def discard(self, sequence: Sequence) -> bool:
        """Take a sequence out; whether it waited."""
        if self._line(sequence).pop(sequence.id, None) is None:
            return False
        self.tokens -= self._outstanding.pop(sequence.id)
        return True

    def set_orphan(self, sequence: Sequence, orphan: bool) -> None:
        """Mark a sequence and, if it waits, move it: an orphan behind everyone, a client to
        front."""
        waits = self.discard(sequence)
        sequence.orphan = orphan
        if waits:
            self.push_front(sequence)

    def window(self, size: int) -> list[Sequence]:
        """The oldest clients or, where no client waits, the oldest orphans."""
        return list(islice((self._clients or self._orphans).values(), size))

    def oldest(self) -> Sequence | None:
        return next(iter((self._clients or self._orphans).values()), None)

    def _line(self, sequence: Sequence) -> OrderedDict[str, Sequence]:
        return self._orphans if sequence.orphan else self._clients
