"""What one forward pass is given and what runs it: all the engine knows of a torch model."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import torch

    from splitpool_worker.sampling.largest import Best


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """One step over T tokens of S sequences, prefill and decode rows flat and together."""

    tokens: list[int] = field(default_factory=list)
    """[T]"""
    positions: list[int] = field(default_factory=list)
    """[T] position of each token in its sequence"""
    slots: list[int] = field(default_factory=list)
    """[T] block * block_size + offset: where this token's K/V go"""
    query_start: list[int] = field(default_factory=lambda: [0])
    """[S + 1] first row of each sequence; the last entry is T"""
    context_len: list[int] = field(default_factory=list)
    """[S] tokens in KV, this step's included"""
    block_tables: list[list[int]] = field(default_factory=list)
    """[S] block ids; read only, and only during the call"""
    sample_rows: list[int] = field(default_factory=list)
    """[R] rows whose logits are wanted"""
    copies: list[tuple[int, int]] = field(default_factory=list)
    """Blocks to copy before anything is computed, and where to, one after the other"""


class Runner(Protocol):
    """A model with its KV cache."""

    vocab_size: int
    max_model_len: int
    block_size: int
    num_blocks: int
    independent_rows: bool
    """Whether a row's logits are the same bits whoever is computed with it."""

    def forward(self, batch: Batch) -> "torch.Tensor":
        """Logits [R, V] in float32 of `batch.sample_rows`, valid until the next call; K/V of all
        rows are stored."""

    def best(self) -> "Best":
        """Of the logits of the last forward pass."""

    def spent(self) -> Mapping[str, float]:
        """Seconds of the last forward pass by part, `linears` and `attention`; empty where only
        the whole is known."""

    def poison(self, blocks: Iterable[int]) -> None:
        """Fill the K/V of these blocks with NaN, so that a test sees whoever reads them."""
