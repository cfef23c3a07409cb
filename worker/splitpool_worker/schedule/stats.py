"""What the engine reports of itself: one record per step, one load figure per class."""

from collections.abc import Mapping
from dataclasses import dataclass

from splitpool_worker.schedule.sequence import LatencyClass

FORWARD = ("forward", "linears", "attention", "other")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassStep:
    """One class in one step. Counts are of this step; waiting, running and kv are after it."""

    decode_tokens: int
    draft_tokens: int
    """Guessed tokens that were computed beside the decodes', and of those `accepted_tokens` that
    came true."""
    accepted_tokens: int
    prefill_tokens: int
    budget: int
    """Tokens this class could have had in this step."""
    waiting: int
    running: int
    preemptions: int
    utilisation: float
    """Sequences with a token / (slots x steps); static: mean over longest of the last batch."""
    kv_used_tokens: int
    prefix_query_tokens: int
    prefix_hit_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StepStats:
    step: int
    started: float
    """Engine clock."""
    seconds: float
    parts: Mapping[str, float]
    """Seconds of schedule, sample and deliver, which are the host's, and of the forward pass: its
    linears, attention and other operations, or `forward` where only the whole is known. Together
    they are `seconds`."""
    classes: Mapping[LatencyClass, ClassStep]

    @property
    def forward(self) -> float:
        """Seconds of the forward pass."""
        return sum(self.parts.get(part, 0.0) for part in FORWARD)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassLoad:
    """What a class has to do and what it has room for, for balancing."""

    outstanding_tokens: int
    waiting: int
    running: int
    waiting_tokens: int
    kv_tokens: int
    kv_used_tokens: int
    max_batch: int
    token_budget: int
