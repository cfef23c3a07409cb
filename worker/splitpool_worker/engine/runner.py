"""The model and its KV cache behind the engine's `Runner` interface."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import torch

from splitpool_worker.checkpoint import footprint
from splitpool_worker.checkpoint.inspect import bounded_length
from splitpool_worker.checkpoint.weights import open_checkpoint, resolve
from splitpool_worker.engine import openmp
from splitpool_worker.engine.batch import Batch
from splitpool_worker.engine.indices import Indices
from splitpool_worker.engine.kv_cache import KVCache
from splitpool_worker.engine.replaying import Replaying
from splitpool_worker.models.config import ModelConfig
from splitpool_worker.models.llama import Llama, load_llama
from splitpool_worker.ops.choice import choose
from splitpool_worker.ops.cpu import unsupported
from splitpool_worker.ops.interface import Ops
from splitpool_worker.ops.timed import TimedOps
from splitpool_worker.sampling.largest import Best

DTYPES = {"bfloat16": torch.bfloat16, "float32": torch.float32}


class TorchRunner:
    """One model on one device. `forward` is called by one thread at a time."""

    def __init__(
        self, *, config: ModelConfig, model: Llama, kv: KVCache, max_model_len: int, block_size: int
    ) -> None:
        self.vocab_size = config.vocab_size
        self.max_model_len = max_model_len
        self.block_size = block_size
        self.num_blocks = kv.num_blocks
        self.ops_name = model.ops.name
        self.independent_rows = model.ops.independent_rows
        self.kv_bytes = kv.nbytes
        self.weight_bytes = model.nbytes
        self._model = model
        self._kv = kv
        self._device = model.norm.device
        self._best: list[torch.Tensor] = []
        self._replaying = (
            Replaying(replay, model, kv, max_model_len, block_size)
            if (replay := model.ops.replay) is not None
            else None
        )

    @classmethod
    def load(
        cls,
        source: str | Path,
        *,
        dtype: str = "bfloat16",
        quantization: str = "none",
        device: str = "cpu",
        ops: str | Ops = "auto",
        block_size: int = 16,
        num_blocks: int | None = None,
        kv_bytes: int | None = None,
        max_model_len: int | None = None,
        threads: int | None = None,
        quota_bytes: int | None = None,
    ) -> TorchRunner:
        """Loads a model (a source URI or a path) with a KV cache of `num_blocks` or `kv_bytes`.

        `threads` is set once for the process. `quota_bytes` caps torch's allocator on CUDA.
        Raises ModelNotFound, ModelUnreadable, BadModelLength, OpsUnavailable.
        """
        if threads is not None:
            torch.set_num_threads(threads)
        where = torch.device(device)
        if where.type == "cuda" and quota_bytes is not None:
            _cap_cuda(where, quota_bytes)
        path = source if isinstance(source, Path) else resolve(source)
        with open_checkpoint(path) as checkpoint:
            config = checkpoint.config
            kind = (
                choose(
                    ops,
                    where,
                    quantization=quantization,
                    dtype=DTYPES[dtype],
                    unsupported=unsupported(config, block_size),
                )
                if isinstance(ops, str)
                else ops
            )
            if where.type == "cpu":
                kind = TimedOps(kind)
            max_len = bounded_length(max_model_len, config.max_len)
            model = load_llama(checkpoint, kind, max_len=max_len, dtype=DTYPES[dtype], device=where)
        block = block_size * footprint.kv_bytes_per_token(config, footprint.DTYPE_BYTES[dtype])
        kv = _kv_cache(
            config, kind, _blocks(num_blocks, kv_bytes, block), block_size, DTYPES[dtype], where
        )
        openmp.release()  # steps are another thread's
        return cls(config=config, model=model, kv=kv, max_model_len=max_len, block_size=block_size)

    @torch.no_grad()
    def forward(self, batch: Batch) -> torch.Tensor:
        for source, target in batch.copies:
            self._kv.copy(source, target)
        self._check(batch)
        if self._replaying is not None and self._replaying.fits(batch):
            logits, *self._best = self._replaying.forward(batch)
        else:
            logits, *self._best = self._model.forward(Indices.of(batch, self._device), self._kv)
        return logits

    def best(self) -> Best:
        values, indices = self._best
        return Best(values.flatten().tolist(), indices.flatten().tolist())

    def spent(self) -> Mapping[str, float]:
        ops = self._model.ops
        return ops.take() if isinstance(ops, TimedOps) else {}

    def _check(self, batch: Batch) -> None:
        """Kernels write where they are told: what is out of range must not reach them."""
        for name, values, limit in (
            ("token", batch.tokens, self.vocab_size),
            ("position", batch.positions, self.max_model_len),
            ("slot", batch.slots, self.num_blocks * self.block_size),
            *(("block", table, self.num_blocks) for table in batch.block_tables),
        ):
            if min(values) < 0 or max(values) >= limit:
                raise IndexError(f"a {name} of this step is out of range 0 .. {limit - 1}")

    def commit(self) -> None:
        """Make the whole cache resident, so that no step is the first to touch a part of it."""
        self._kv.commit()

    def poison(self, blocks: Iterable[int]) -> None:
        self._kv.poison(blocks)


def _blocks(num_blocks: int | None, kv_bytes: int | None, block_bytes: int) -> int:
    if (num_blocks is None) == (kv_bytes is None):
        raise ValueError("give num_blocks or kv_bytes, one of them")
    blocks = num_blocks if num_blocks is not None else (kv_bytes or 0) // block_bytes
    if blocks < 1:
        raise ValueError(f"a KV cache of {kv_bytes} bytes holds no block of {block_bytes} bytes")
    return blocks


def _kv_cache(
    config: ModelConfig,
    ops: Ops,
    num_blocks: int,
    block_size: int,
    dtype: torch.dtype,
    device: torch.device,
) -> KVCache:
    return KVCache(
        num_layers=config.num_layers,
        num_blocks=num_blocks,
        block_size=block_size,
        num_kv_heads=config.num_kv_heads,
        head_dim=config.head_dim,
        block_shapes=ops.block_shapes(block_size, config.num_kv_heads, config.head_dim),
        dtype=dtype,
        device=device,
    )


def _cap_cuda(device: torch.device, quota_bytes: int) -> None:
    """Holds torch's own allocator to the quota. Not yet run on a GPU."""
    total = torch.cuda.get_device_properties(device).total_memory
    torch.cuda.set_per_process_memory_fraction(min(1.0, quota_bytes / total), device)
