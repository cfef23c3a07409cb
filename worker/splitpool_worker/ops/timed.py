"""Where does the time of a forward pass go? Any implementation, its matrices and attention timed.

On a CPU an operation has ended when its call returns. On a device that runs behind its caller
these times would be those of launching, so nothing is timed there.
"""

from __future__ import annotations

from time import perf_counter

import torch

from splitpool_worker.engine.indices import Indices
from splitpool_worker.engine.kv_cache import LayerCache, Shape
from splitpool_worker.ops.interface import Ops, Rope, Weight
from splitpool_worker.ops.tape import Forward, Replayed, Scratch


class TimedOps:
    """`inner`, with the seconds that its linears and its attention took since `take`."""

    def __init__(self, inner: Ops) -> None:
        self.name = inner.name
        self.quantization = inner.quantization
        self.independent_rows = inner.independent_rows
        self.replay = None if inner.replay is None else self._replay
        self.linears = 0.0
        self.attention = 0.0
        self._inner = inner
        # What is not timed costs nothing: it is called without a step in between.
        self.embed = inner.embed
        self.rms_norm = inner.rms_norm
        self.add_rms_norm = inner.add_rms_norm
        self.select = inner.select
        self.best = inner.best

    def take(self) -> dict[str, float]:
        """Seconds by part, and from zero again."""
        seconds = {"linears": self.linears, "attention": self.attention}
        self.linears = self.attention = 0.0
        return seconds

    def reserve(self, nbytes: int) -> None:
        self._inner.reserve(nbytes)

    def pack(self, weight: torch.Tensor) -> Weight:
        return self._inner.pack(weight)

    def pack_gate_up(self, gate: torch.Tensor, up: torch.Tensor) -> Weight:
        return self._inner.pack_gate_up(gate, up)

    def block_shapes(
        self, block_size: int, num_kv_heads: int, head_dim: int
    ) -> tuple[Shape, Shape]:
        return self._inner.block_shapes(block_size, num_kv_heads, head_dim)

    def rope_and_store(self, qkv: torch.Tensor, rope: Rope, at: Indices, cache: LayerCache) -> None:
        self._inner.rope_and_store(qkv, rope, at, cache)

    def linear(self, x: torch.Tensor, weight: Weight) -> torch.Tensor:
        started = perf_counter()
        result = self._inner.linear(x, weight)
        self.linears += perf_counter() - started
        return result

    def logits(self, x: torch.Tensor, weight: Weight) -> torch.Tensor:
        started = perf_counter()
        result = self._inner.logits(x, weight)
        self.linears += perf_counter() - started
        return result

    def gated(self, x: torch.Tensor, weight: Weight) -> torch.Tensor:
        started = perf_counter()
        result = self._inner.gated(x, weight)
        self.linears += perf_counter() - started
        return result

    def paged_attention(self, qkv: torch.Tensor, at: Indices, cache: LayerCache) -> torch.Tensor:
        started = perf_counter()
        result = self._inner.paged_attention(qkv, at, cache)
        self.attention += perf_counter() - started
        return result

    def _replay(self, forward: Forward, dtype: torch.dtype, scratch: Scratch) -> Replayed:
        assert self._inner.replay is not None
        run = self._inner.replay(forward, dtype, scratch)
        run.watch = self._ran
        return run

    def _ran(self, run: Replayed) -> None:
        self.linears += run.linears
        self.attention += run.attention
