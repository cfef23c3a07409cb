"""One planned iteration: which sequence computes how many tokens."""

from dataclasses import dataclass, field

from splitpool_worker.schedule.drafting import Guess
from splitpool_worker.schedule.lane import Lane
from splitpool_worker.schedule.pace import StepWork
from splitpool_worker.schedule.sequence import LatencyClass, Sample, Sequence


@dataclass(slots=True)
class Share:
    """`count` tokens of a sequence from position `start` on."""

    lane: Lane
    sequence: Sequence
    start: int
    count: int
    samples: bool
    """Whether the last of these tokens gives the next one."""
    guess: Guess | None = None
    """What is expected to be drawn."""
    drafted: int = 0
    """How many tokens of the guess are computed, too, as if they had been drawn."""

    @property
    def drafts(self) -> list[int]:
        return self.guess.tokens[: self.drafted] if self.guess else []

    @property
    def sampled(self) -> int:
        """How many of its rows give a token: the last of its own and each draft."""
        return self.samples + self.drafted


@dataclass(slots=True)
class Portion:
    """What one class got of the iteration."""

    budget: int
    preemptions_before: int
    decodes: int = 0
    drafted: int = 0
    accepted: int = 0
    """Of the drafts, those that came true."""
    prefills: int = 0

    @property
    def tokens(self) -> int:
        return self.decodes + self.drafted + self.prefills

    @property
    def left(self) -> int:
        return self.budget - self.tokens


@dataclass(slots=True, kw_only=True)
class StepPlan:
    number: int
    portions: dict[LatencyClass, Portion] = field(default_factory=dict)
    shares: list[Share] = field(default_factory=list)
    copies: list[tuple[int, int]] = field(default_factory=list)
    """Blocks whose content is copied before the shares are computed, and where to, in order."""
    work: StepWork = field(default_factory=StepWork)
    wake_at: float | None = None
    """Where there are no shares: when planning again can give another answer by itself."""
    stuck: Sequence | None = None
    """The head of a queue that made no progress for many iterations, to be failed."""

    @property
    def tokens(self) -> int:
        return self.work.decodes + self.work.drafted + self.work.prefills

    @property
    def sampled(self) -> list[Sample]:
        """One for each row that samples, in order."""
        return [
            Sample(share.sequence, share.sequence.outputs + ahead)
            for share in self.shares
            for ahead in range(share.sampled)
        ]

    def add_decodes(self, lane: Lane, sequences: list[Sequence]) -> None:
        for sequence in sequences:
            sequence.served = self.number
            self.work.decode(sequence.computed + 1)
            self.shares.append(Share(lane, sequence, sequence.computed, 1, True))
        self.portions[lane.limits.cls].decodes += len(sequences)

    def add_drafts(self, share: Share, guess: Guess, count: int) -> None:
        """So many tokens of the guess behind a decode's own."""
        share.guess, share.drafted = guess, count
        share.count += count
        self.work.draft(count, share.start + count)
        self.portions[share.lane.limits.cls].drafted += count

    def add_prefill(self, lane: Lane, sequence: Sequence, count: int) -> None:
        if count == 0:
            return
        sequence.served = self.number
        samples = count == sequence.left
        self.shares.append(Share(lane, sequence, sequence.computed, count, samples))
        self.work.prefill(sequence.computed, count)
        self.portions[lane.limits.cls].prefills += count
