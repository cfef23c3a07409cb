"""The operations that a model is written against; every implementation keeps their meaning."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch

from splitpool_worker.engine.indices import Indices
from splitpool_worker.engine.kv_cache import LayerCache, Shape
from splitpool_worker.ops.tape import Forward, Replayed, Scratch


@dataclass(frozen=True, slots=True, kw_only=True)
class Weight:
    """A matrix [rows, columns] in whatever order of elements an implementation reads best."""

    data: torch.Tensor
    rows: int
    columns: int
    scales: torch.Tensor | None = None
    """Of each row, where they are not part of the data."""

    @property
    def nbytes(self) -> int:
        return self.data.nbytes + (0 if self.scales is None else self.scales.nbytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rope:
    """Cosines and sines [positions, head_dim / 2] in the model's dtype."""

    cos: torch.Tensor
    sin: torch.Tensor


Replay = Callable[[Forward, torch.dtype, Scratch], Replayed]


class Ops(Protocol):
    """Rows are tokens: prefill and decode rows of all sequences lie flat in one tensor.

    What norms, `gated` and `paged_attention` return is only ever a product's x, so it may be in a
    form of the implementation's own; its first dimension is the row.
    """

    name: str
    quantization: str
    """Of the weights: none or int8."""
    independent_rows: bool
    """Whether a row's results are the same bits whoever is computed with it."""

    def reserve(self, nbytes: int) -> None:
        """What the matrices to be packed will take together."""

    def pack(self, weight: torch.Tensor) -> Weight:
        """The weight [rows, columns] as `linear` and `embed` want it; `weight` may be freed."""

    def pack_gate_up(self, gate: torch.Tensor, up: torch.Tensor) -> Weight:
        """Both weights [rows, columns] of a gated MLP as one, for `gated`."""

    def block_shapes(
        self, block_size: int, num_kv_heads: int, head_dim: int
    ) -> tuple[Shape, Shape]:
        """The shapes of one block of K and of V."""

    def embed(self, table: Weight, tokens: torch.Tensor) -> torch.Tensor:
        """Rows [T, columns] of the table."""

    def linear(self, x: torch.Tensor, weight: Weight) -> torch.Tensor:
        """x [T, columns] times the weight transposed: [T, rows]."""

    def logits(self, x: torch.Tensor, weight: Weight) -> torch.Tensor:
        """`linear` in float32, yet rounded to the dtype as transformers rounds it: where two
        tokens are as good as each other, both then choose the same one."""

    def gated(self, x: torch.Tensor, weight: Weight) -> torch.Tensor:
        """silu(x times gate transposed) * (x times up transposed): [T, rows]."""

    def rms_norm(self, x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
        """weight * (x / rms(x)): normalised in float32, rounded to the dtype, then scaled."""

    def add_rms_norm(
        self, residual: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, eps: float
    ) -> torch.Tensor:
        """Adds x to the residual in place and returns the norm of the sum."""

    def rope_and_store(self, qkv: torch.Tensor, rope: Rope, at: Indices, cache: LayerCache) -> None:
        """Rotates the queries of qkv [T, (heads + 2 kv_heads) * head_dim] in place, rotates the
        keys, and stores keys and values in the slots of the step."""

    def paged_attention(self, qkv: torch.Tensor, at: Indices, cache: LayerCache) -> torch.Tensor:
        """Causal attention of every row's query to its own sequence: [T, heads * head_dim]."""

    def select(self, x: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        """Rows [R] of x, whose form may be of the implementation's own."""

    def best(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Value and index [R, 1] of the largest of each row of x [R, V] in float32, the first where
        several are; the value is NaN where any is."""

    @property
    def replay(self) -> Replay | None:
        """Makes of a forward pass one that computes the same sooner, where there is such a way.

        Of the pass, its results' dtype and the scratch that they lie in; nothing is computed yet.
        Each run is of the sizes it is told, and reads anew the memory that the pass was given.
        """
