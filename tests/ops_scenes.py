"""Sequences in paged KV caches for tests of operations, and what they attend to."""

import random
from dataclasses import dataclass

import torch

from splitpool_worker.engine.batch import Batch
from splitpool_worker.engine.indices import Indices
from splitpool_worker.engine.kv_cache import KVCache, LayerCache
from splitpool_worker.ops.interface import Ops, Rope

CPU = torch.device("cpu")


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """Sequences with random block tables; each has stored a context, `queries` rows come last."""

    heads: int
    kv_heads: int
    head_dim: int
    block_size: int
    contexts: list[int]
    queries: list[int]
    tables: list[list[int]]

    @staticmethod
    def random(seed: int) -> "Scene":
        draw = random.Random(seed)
        kv_heads, block_size = draw.choice([1, 2, 3]), draw.choice([16, 16, 32])
        contexts = [draw.choice([1, 2, 15, 16, 17, 63, 250, 300, 530]) for _ in range(3)]
        blocks = [-(-context // block_size) for context in contexts]
        free = list(range(sum(blocks) + 3))
        draw.shuffle(free)
        return Scene(
            heads=kv_heads * draw.choice([1, 3, 4]),
            kv_heads=kv_heads,
            head_dim=draw.choice([32, 64, 64, 96, 128]),
            block_size=block_size,
            contexts=contexts,
            queries=[min(c, draw.choice([1, 1, 2, 11, 40, 130])) for c in contexts],
            tables=[[free.pop() for _ in range(count)] for count in blocks],
        )

    @property
    def num_blocks(self) -> int:
        return sum(map(len, self.tables)) + 3

    @property
    def starts(self) -> list[int]:
        """The position of the first query of each sequence."""
        return [c - q for c, q in zip(self.contexts, self.queries, strict=True)]

    @property
    def width(self) -> int:
        return (self.heads + 2 * self.kv_heads) * self.head_dim

    def indices(self, first: list[int], last: list[int]) -> Indices:
        """Positions first[s] .. last[s] - 1 of every sequence."""
        spans = [range(a, b) for a, b in zip(first, last, strict=True)]
        starts = [sum(map(len, spans[:count])) for count in range(len(spans) + 1)]
        batch = Batch(
            tokens=[0] * starts[-1],
            positions=[position for span in spans for position in span],
            slots=[
                table[position // self.block_size] * self.block_size + position % self.block_size
                for table, span in zip(self.tables, spans, strict=True)
                for position in span
            ],
            query_start=starts,
            context_len=last,
            block_tables=self.tables,
            sample_rows=[],
        )
        return Indices.of(batch, CPU)

    def cache(self, ops: Ops, dtype: torch.dtype) -> KVCache:
        """All of it NaN, so that whoever reads a slot that holds no token is seen."""
        kv = KVCache(
            num_layers=1,
            num_blocks=self.num_blocks,
            block_size=self.block_size,
            num_kv_heads=self.kv_heads,
            head_dim=self.head_dim,
            block_shapes=ops.block_shapes(self.block_size, self.kv_heads, self.head_dim),
            dtype=dtype,
            device=CPU,
        )
        kv.poison(range(self.num_blocks))
        return kv

    def rope(self, dtype: torch.dtype) -> Rope:
        angles = torch.outer(torch.arange(600.0), torch.logspace(0, -3, self.head_dim // 2))
        return Rope(cos=angles.cos().to(dtype), sin=angles.sin().to(dtype))


def attended(
    scene: Scene, ops: Ops, dtype: torch.dtype, seed: int
) -> tuple[torch.Tensor, torch.Tensor, LayerCache]:
    """Stores all contexts in one step; rotated rows and attention of the last queries of each."""
    torch.manual_seed(seed)
    history = torch.randn(sum(scene.contexts), scene.width).to(dtype)
    layer = scene.cache(ops, dtype).layers[0]
    rope = scene.rope(dtype)
    ops.rope_and_store(history, rope, scene.indices([0] * 3, scene.contexts), layer)
    rows = torch.randn(sum(scene.queries), scene.width).to(dtype)
    at = scene.indices(scene.starts, scene.contexts)
    ops.rope_and_store(rows, rope, at, layer)
    return rows, ops.paged_attention(rows, at, layer), layer
