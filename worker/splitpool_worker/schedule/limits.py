"""What a worker and each of its latency classes may use."""

from collections.abc import Iterable
from dataclasses import dataclass

from splitpool_worker.schedule.sequence import LatencyClass


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassLimits:
    cls: LatencyClass
    vram_bytes: int
    kv_blocks: int
    max_batch: int
    max_wait_s: float
    token_budget: int
    prefill_chunk: int
    max_length_ratio: float = 4.0
    prefix_cache: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerLimits:
    """`classes` holds one (Split) or both (Shared); block ids are handed out in that order."""

    classes: tuple[ClassLimits, ...]
    block_size: int
    max_model_len: int
    max_step_s: float
    static: bool = False
    class_priority: bool = True
    draft_tokens: int = 0
    """Guessed tokens that a decoding sequence may have computed in a step beside its next one."""

    @property
    def most_sampled(self) -> int:
        """Rows of a step that may give a token: the quota has room for their logits."""
        return most_sampled((limits.max_batch for limits in self.classes), self.draft_tokens)

    def of(self, cls: LatencyClass) -> ClassLimits | None:
        return next((limits for limits in self.classes if limits.cls is cls), None)

    def longest(self, limits: ClassLimits) -> int:
        """Tokens, prompt and output together, that one sequence of this class can reach."""
        return min(self.max_model_len, limits.kv_blocks * self.block_size)


def most_sampled(max_batches: Iterable[int], draft_tokens: int) -> int:
    """Of a worker whose classes run so many sequences at most."""
    return max(sum(max_batches), 1 + draft_tokens)
