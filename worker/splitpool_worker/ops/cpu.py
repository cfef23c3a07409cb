"""The operations in C++ for CPUs: AMX or AVX512-BF16 where there is one, AVX2 elsewhere."""

import ctypes
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from splitpool_worker.engine.arena import Arena
from splitpool_worker.engine.indices import Indices
from splitpool_worker.engine.kv_cache import LayerCache, Shape
from splitpool_worker.models.config import ModelConfig
from splitpool_worker.ops.build import NATIVE, library
from splitpool_worker.ops.compiling import BuildFailed
from splitpool_worker.ops.interface import Rope, Weight
from splitpool_worker.ops.tape import Forward, Recorder, Replayed, Results, Scratch, Sizes, Tape

# Floats that the kernels handle at once: they have no code for what is left of a row.
LANES = 16
MAX_HEAD_DIM = 256
DTYPES = {torch.bfloat16: "bfloat16", torch.float32: "float32"}
LEVELS = ("plain", "avx512-bf16", "amx")

_POINTER, _LONG, _FLOAT = ctypes.c_void_p, ctypes.c_long, ctypes.c_float
_SIGNATURES: dict[str, tuple[type[Any], ...]] = {
    "pack": (_POINTER,) * 2 + (_LONG,) * 4,
    "embed": (_POINTER,) * 3 + (_LONG,) * 2,
    "linear": (_POINTER,) * 3 + (_LONG,) * 3,
    "logits": (_POINTER,) * 3 + (_LONG,) * 3,
    "gated": (_POINTER,) * 3 + (_LONG,) * 3,
    "add_rms_norm": (_POINTER,) * 4 + (_FLOAT,) + (_LONG,) * 2,
    "rope_and_store": (_POINTER,) * 7 + (_LONG,) * 5,
    "paged_attention": (_POINTER,) * 7 + (_LONG,) * 6,
    "select": (_POINTER,) * 3 + (_LONG,) * 2,
    "best": (_POINTER,) * 3 + (_LONG,) * 2,
}


def unsupported(config: ModelConfig, block_size: int) -> str | None:
    """Why these kernels cannot run a model of this shape, or None."""
    if config.head_dim % (2 * LANES) or config.head_dim > MAX_HEAD_DIM:
        return f"head size {config.head_dim} is no multiple of 32 up to {MAX_HEAD_DIM}"
    if config.hidden_size % LANES or config.intermediate_size % LANES:
        return f"hidden sizes are no multiples of {LANES}"
    if block_size % LANES:
        return f"block size {block_size} is no multiple of {LANES}"
    return None


class CpuOps:
    """Tensors are contiguous, on the CPU, and of the dtype that the weights were packed in."""

    name = "cpu"
    quantization = "none"
    independent_rows = True

    def __init__(self, threads: int, target: Sequence[str] = NATIVE) -> None:
        """Compiles the library if needed. Raises BuildFailed."""
        self.library = _loaded(library(target))
        self.library.set_threads(threads)
        self.level = LEVELS[self.library.level()]
        self._arena: Arena | None = None
        self._tape: Tape | None = None
        self._of: dict[torch.dtype, Any] = {
            dtype: Kernels(self.library, name, _SIGNATURES) for dtype, name in DTYPES.items()
        }

    def replay(self, forward: Forward, dtype: torch.dtype, scratch: Scratch) -> Replayed:
        """The same calls as one. The tensors that `forward` is given must stay where they are."""

        def record(sizes: Sizes) -> tuple[Tape, Results]:
            tape = Tape(scratch)
            with self._recording(tape):
                return tape, forward(sizes)

        return Replayed(self.library, DTYPES[dtype], record)

    @contextmanager
    def _recording(self, tape: Tape) -> Iterator[None]:
        kernels = self._of
        self._of, self._tape = dict.fromkeys(kernels, Recorder(tape)), tape
        try:
            yield
        finally:
            self._of, self._tape = kernels, None

    def _rows(self, count: int, columns: int, dtype: torch.dtype) -> torch.Tensor:
        """Room for a result."""
        if self._tape is not None:
            return self._tape.scratch.take(count, columns, dtype)
        return torch.empty((count, columns), dtype=dtype)

    def reserve(self, nbytes: int) -> None:
        self._arena = Arena(nbytes)

    def pack(self, weight: torch.Tensor) -> Weight:
        return self._packed([weight])

    def pack_gate_up(self, gate: torch.Tensor, up: torch.Tensor) -> Weight:
        return self._packed([gate, up])

    def _packed(self, parts: list[torch.Tensor]) -> Weight:
        """The panels of the parts in turns: one of the first, one of the second, and so on."""
        rows, columns = parts[0].shape
        panels = -(-rows // LANES)
        dtype = parts[0].dtype
        data = self._room(len(parts) * panels * LANES * columns, dtype)
        for offset, part in enumerate(parts):
            self._of[dtype].pack(
                data.data_ptr(), part.contiguous().data_ptr(), rows, columns, len(parts), offset
            )
        return Weight(data=data, rows=rows, columns=columns)

    def _room(self, count: int, dtype: torch.dtype) -> torch.Tensor:
        taken = self._arena.take(count, dtype) if self._arena else None
        return torch.empty(count, dtype=dtype) if taken is None else taken

    def block_shapes(
        self, block_size: int, num_kv_heads: int, head_dim: int
    ) -> tuple[Shape, Shape]:
        # The kernels' own order inside a head; see native/attention.h.
        shape = (num_kv_heads, head_dim * block_size)
        return shape, shape

    def embed(self, table: Weight, tokens: torch.Tensor) -> torch.Tensor:
        out = self._rows(len(tokens), table.columns, table.data.dtype)
        self._of[out.dtype].embed(
            out.data_ptr(), table.data.data_ptr(), tokens.data_ptr(), len(tokens), table.columns
        )
        return out

    def linear(self, x: torch.Tensor, weight: Weight) -> torch.Tensor:
        out = self._rows(x.shape[0], weight.rows, x.dtype)
        self._multiply(self._of[x.dtype].linear, out, x, weight)
        return out

    def logits(self, x: torch.Tensor, weight: Weight) -> torch.Tensor:
        out = self._rows(x.shape[0], weight.rows, torch.float32)
        self._multiply(self._of[x.dtype].logits, out, x, weight)
        return out

    def gated(self, x: torch.Tensor, weight: Weight) -> torch.Tensor:
        out = self._rows(x.shape[0], weight.rows, x.dtype)
        self._multiply(self._of[x.dtype].gated, out, x, weight)
        return out

    @staticmethod
    def _multiply(kernel: Any, out: torch.Tensor, x: torch.Tensor, weight: Weight) -> None:
        kernel(
            out.data_ptr(),
            x.data_ptr(),
            weight.data.data_ptr(),
            x.shape[0],
            weight.columns,
            weight.rows,
        )

    def rms_norm(self, x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
        return self._add_rms_norm(x, None, weight, eps)

    def add_rms_norm(
        self, residual: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, eps: float
    ) -> torch.Tensor:
        return self._add_rms_norm(residual, x.data_ptr(), weight, eps)

    def _add_rms_norm(
        self, residual: torch.Tensor, x: int | None, weight: torch.Tensor, eps: float
    ) -> torch.Tensor:
        out = self._rows(residual.shape[0], residual.shape[1], residual.dtype)
        self._of[residual.dtype].add_rms_norm(
            out.data_ptr(), residual.data_ptr(), x, weight.data_ptr(), eps, *residual.shape
        )
        return out

    def rope_and_store(self, qkv: torch.Tensor, rope: Rope, at: Indices, cache: LayerCache) -> None:
        self._of[qkv.dtype].rope_and_store(
            qkv.data_ptr(),
            rope.cos.data_ptr(),
            rope.sin.data_ptr(),
            at.positions.data_ptr(),
            at.slots.data_ptr(),
            cache.k.data_ptr(),
            cache.v.data_ptr(),
            qkv.shape[0],
            _heads(qkv, cache),
            cache.num_kv_heads,
            cache.head_dim,
            cache.block_size,
        )

    def paged_attention(self, qkv: torch.Tensor, at: Indices, cache: LayerCache) -> torch.Tensor:
        heads = _heads(qkv, cache)
        out = self._rows(qkv.shape[0], heads * cache.head_dim, qkv.dtype)
        self._attend(self._of[qkv.dtype].paged_attention, out, qkv, at, cache)
        return out

    def select(self, x: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        out = self._rows(len(rows), x.shape[1], x.dtype)
        # Of bytes, whichever type they are.
        self._of[torch.bfloat16].select(
            out.data_ptr(), x.data_ptr(), rows.data_ptr(), len(rows), x.shape[1] * x.itemsize
        )
        return out

    def best(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        values = self._rows(len(x), 1, torch.float32)
        indices = self._rows(len(x), 1, torch.int64)
        # Of float32, whichever type the rest is.
        self._of[torch.bfloat16].best(
            values.data_ptr(), indices.data_ptr(), x.data_ptr(), len(x), x.shape[1]
        )
        return values, indices

    @staticmethod
    def _attend(
        kernel: Any, out: torch.Tensor, qkv: torch.Tensor, at: Indices, cache: LayerCache
    ) -> None:
        kernel(
            out.data_ptr(),
            qkv.data_ptr(),
            cache.k.data_ptr(),
            cache.v.data_ptr(),
            at.query_start.data_ptr(),
            at.context_len.data_ptr(),
            at.block_table.data_ptr(),
            *at.block_table.shape,
            _heads(qkv, cache),
            cache.num_kv_heads,
            cache.head_dim,
            cache.block_size,
        )


class Kernels:
    """Functions of the library for one dtype."""

    def __init__(
        self, loaded: ctypes.CDLL, dtype: str, signatures: Mapping[str, tuple[type[Any], ...]]
    ) -> None:
        for name, arguments in signatures.items():
            function = getattr(loaded, f"{name}_{dtype}")
            function.argtypes, function.restype = arguments, None
            setattr(self, name, function)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name)


def _loaded(path: Path) -> ctypes.CDLL:
    try:
        loaded = ctypes.CDLL(str(path))
    except OSError as error:
        raise BuildFailed(f"the compiled operations do not load: {error}") from error
    loaded.set_threads.argtypes, loaded.set_threads.restype = (_LONG,), None
    loaded.level.argtypes, loaded.level.restype = (), _LONG
    return loaded


def _heads(qkv: torch.Tensor, cache: LayerCache) -> int:
    return qkv.shape[1] // cache.head_dim - 2 * cache.num_kv_heads
