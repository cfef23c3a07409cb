"""The operations in plain torch: short and obvious, on any device; the oracle of the others."""

import math

import torch
import torch.nn.functional as F

from splitpool_worker.engine.indices import Indices
from splitpool_worker.engine.kv_cache import LayerCache, Shape
from splitpool_worker.ops.interface import Replay, Rope, Weight

# Queries that attend at once. It bounds the scores in memory: heads * QUERY_ROWS * context floats.
QUERY_ROWS = 64


class ReferenceOps:
    name = "reference"
    quantization = "none"
    independent_rows = False  # libraries choose another kernel for another number of rows
    replay: Replay | None = None

    def reserve(self, nbytes: int) -> None:
        """Torch allocates each weight by itself."""

    def pack(self, weight: torch.Tensor) -> Weight:
        rows, columns = weight.shape
        return Weight(data=weight, rows=rows, columns=columns)

    def pack_gate_up(self, gate: torch.Tensor, up: torch.Tensor) -> Weight:
        rows, columns = gate.shape
        return Weight(data=torch.cat([gate, up]), rows=rows, columns=columns)

    def block_shapes(
        self, block_size: int, num_kv_heads: int, head_dim: int
    ) -> tuple[Shape, Shape]:
        shape = (block_size, num_kv_heads, head_dim)
        return shape, shape

    def embed(self, table: Weight, tokens: torch.Tensor) -> torch.Tensor:
        return F.embedding(tokens, table.data)

    def linear(self, x: torch.Tensor, weight: Weight) -> torch.Tensor:
        return F.linear(x, weight.data)

    def logits(self, x: torch.Tensor, weight: Weight) -> torch.Tensor:
        return self.linear(x, weight).float()

    def gated(self, x: torch.Tensor, weight: Weight) -> torch.Tensor:
        gate, up = F.linear(x, weight.data).chunk(2, dim=-1)
        return F.silu(gate) * up

    def rms_norm(self, x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
        wide = x.float()
        normed = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + eps)
        return weight * normed.to(x.dtype)

    def add_rms_norm(
        self, residual: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, eps: float
    ) -> torch.Tensor:
        residual.add_(x)
        return self.rms_norm(residual, weight, eps)

    def rope_and_store(self, qkv: torch.Tensor, rope: Rope, at: Indices, cache: LayerCache) -> None:
        q, k, v = _split(qkv, cache)
        cos = rope.cos[at.positions][:, None, :]
        sin = rope.sin[at.positions][:, None, :]
        q.copy_(_rotated(q, cos, sin))
        _by_slot(cache.k)[at.slots] = _rotated(k, cos, sin)
        _by_slot(cache.v)[at.slots] = v

    def select(self, x: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        return x[rows]

    def best(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        found = x.max(dim=-1, keepdim=True)
        return found.values, found.indices

    def paged_attention(self, qkv: torch.Tensor, at: Indices, cache: LayerCache) -> torch.Tensor:
        q, _, _ = _split(qkv, cache)
        out = torch.empty_like(q, memory_format=torch.contiguous_format)
        batch = at.batch
        for index, context in enumerate(batch.context_len):
            start, end = batch.query_start[index], batch.query_start[index + 1]
            k, v = _gathered(cache, at.block_table[index], context, q.shape[1])
            for row in range(start, end, QUERY_ROWS):
                stop = min(row + QUERY_ROWS, end)
                out[row:stop] = _attend(q[row:stop], k, v, at.positions[row:stop])
        return out.flatten(1)


def _split(qkv: torch.Tensor, cache: LayerCache) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Views of q [T, heads, head_dim], k and v [T, kv_heads, head_dim]."""
    heads = qkv.view(qkv.shape[0], -1, cache.head_dim)
    queries = heads.shape[1] - 2 * cache.num_kv_heads
    keys = queries + cache.num_kv_heads
    return heads[:, :queries], heads[:, queries:keys], heads[:, keys:]


def _rotated(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    first, second = x.chunk(2, dim=-1)
    return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)


def _by_slot(blocks: torch.Tensor) -> torch.Tensor:
    return blocks.flatten(0, 1)


def _gathered(
    cache: LayerCache, table: torch.Tensor, context: int, heads: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """A sequence's K and V [heads, context, head_dim] in float32."""
    blocks = table[: -(-context // cache.block_size)].long()
    group = heads // cache.num_kv_heads

    def gather(side: torch.Tensor) -> torch.Tensor:
        rows = side[blocks].flatten(0, 1)[:context].float().transpose(0, 1)
        return rows[:, None].expand(-1, group, -1, -1).flatten(0, 1)

    return gather(cache.k), gather(cache.v)


def _attend(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, positions: torch.Tensor
) -> torch.Tensor:
    """[queries, heads, head_dim]; a query sees the keys up to its own position."""
    scores = q.float().transpose(0, 1) @ k.transpose(1, 2) / math.sqrt(q.shape[-1])
    keys = torch.arange(k.shape[1], device=k.device)
    scores.masked_fill_(keys > positions[:, None], -torch.inf)
    return (scores.softmax(dim=-1) @ v).transpose(0, 1).to(q.dtype)
