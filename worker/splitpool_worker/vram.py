"""How a class's VRAM quota divides into context, weights, workspace and KV blocks, or why it
does not.

Only declared and computed bytes count, never the device's free memory.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from splitpool_worker.schedule.sequence import LatencyClass


class Sizes(Protocol):
    """What a model takes; a ModelCard is one."""

    @property
    def context_bytes(self) -> int: ...
    @property
    def weights_bytes(self) -> int: ...
    @property
    def workspace_bytes(self) -> int: ...
    @property
    def kv_bytes_per_token(self) -> int: ...
    @property
    def max_model_len(self) -> int: ...
    @property
    def block_size(self) -> int: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class VramParts:
    """Bytes of one class's quota; `kv` is what whole blocks take of the rest."""

    quota: int
    context: int
    weights: int
    workspace: int
    kv: int
    kv_blocks: int


class QuotaTooSmall(ValueError):
    """A quota that cannot hold the model and one sequence of maxModelLen."""

    def __init__(self, cls: LatencyClass, quota: int, sizes: Sizes, fixed: Mapping[str, int]):
        self.cls = cls
        self.quota = quota
        self.needed = sum(fixed.values()) + _blocks_of_one(sizes) * _block_bytes(sizes)
        parts = " + ".join(f"{name} {size}" for name, size in fixed.items())
        one = _blocks_of_one(sizes) * _block_bytes(sizes)
        super().__init__(
            f"pools.{cls}.vram is {quota} bytes, but {parts} + KV of one sequence of "
            f"{sizes.max_model_len} tokens {one} = {self.needed} bytes: raise pools.{cls}.vram to "
            f"at least {self.needed}, or lower model.maxModelLen or pools.{cls}.tokenBudget"
        )


def size_kv(sizes: Sizes, quotas: Mapping[LatencyClass, int]) -> dict[LatencyClass, VramParts]:
    """The parts of each class's quota. The first class pays for context, weights and workspace;
    in a Shared worker that is interactive, and batch's whole quota is KV. Raises QuotaTooSmall."""
    classes = [cls for cls in LatencyClass if cls in quotas]
    return {cls: _parts(cls, quotas[cls], sizes, pays=cls is classes[0]) for cls in classes}


def _parts(cls: LatencyClass, quota: int, sizes: Sizes, *, pays: bool) -> VramParts:
    fixed = {
        "context": sizes.context_bytes if pays else 0,
        "weights": sizes.weights_bytes if pays else 0,
        "workspace": sizes.workspace_bytes if pays else 0,
    }
    blocks = (quota - sum(fixed.values())) // _block_bytes(sizes)
    if blocks < _blocks_of_one(sizes):
        raise QuotaTooSmall(cls, quota, sizes, fixed)
    return VramParts(quota=quota, kv=blocks * _block_bytes(sizes), kv_blocks=blocks, **fixed)


def _block_bytes(sizes: Sizes) -> int:
    return sizes.block_size * sizes.kv_bytes_per_token


def _blocks_of_one(sizes: Sizes) -> int:
    return -(-sizes.max_model_len // sizes.block_size)
