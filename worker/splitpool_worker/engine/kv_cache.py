"""The paged KV cache: one pair of tensors a layer, allocated once, addressed by block."""

from collections.abc import Iterable
from dataclasses import dataclass
from math import prod

import torch

from splitpool_worker.engine.arena import Arena


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerCache:
    """K and V of one layer; the first dimension is the block, the rest is the operations' own."""

    k: torch.Tensor
    v: torch.Tensor
    block_size: int
    num_kv_heads: int
    head_dim: int


Shape = tuple[int, ...]


class KVCache:
    """All layers' K and V. Its bytes are fixed here and never grow."""

    def __init__(
        self,
        *,
        num_layers: int,
        num_blocks: int,
        block_size: int,
        num_kv_heads: int,
        head_dim: int,
        block_shapes: tuple[Shape, Shape],
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        # Zeros and not garbage: a kernel that reads a whole block must meet numbers in it.
        elements = 2 * num_layers * num_blocks * block_size * num_kv_heads * head_dim
        arena = Arena(elements * dtype.itemsize) if device.type == "cpu" else None
        self._arena = arena

        def allocate(shape: Shape) -> torch.Tensor:
            whole = (num_blocks, *shape)
            taken = arena.take(prod(whole), dtype) if arena else None
            return (
                torch.zeros(whole, dtype=dtype, device=device)
                if taken is None
                else taken.view(whole)
            )

        self.num_blocks = num_blocks
        self.layers = [
            LayerCache(
                k=allocate(block_shapes[0]),
                v=allocate(block_shapes[1]),
                block_size=block_size,
                num_kv_heads=num_kv_heads,
                head_dim=head_dim,
            )
            for _ in range(num_layers)
        ]

    def commit(self) -> None:
        """Make all of it resident; see Arena.commit. On a device it always is."""
        if self._arena is not None:
            self._arena.commit()

    @property
    def nbytes(self) -> int:
        return sum(layer.k.nbytes + layer.v.nbytes for layer in self.layers)

    def copy(self, source: int, target: int) -> None:
        """All of a block; what of it is not wanted is written before it is read."""
        for layer in self.layers:
            layer.k[target] = layer.k[source]
            layer.v[target] = layer.v[source]

    def poison(self, blocks: Iterable[int]) -> None:
        """Fill these blocks with NaN."""
        index = torch.tensor(list(blocks), dtype=torch.int64, device=self.layers[0].k.device)
        for layer in self.layers:
            layer.k[index] = torch.nan
            layer.v[index] = torch.nan
