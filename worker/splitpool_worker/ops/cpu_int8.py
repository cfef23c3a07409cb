"""The int8 operations in C++ for CPUs: AMX or VNNI where there is one, 16-bit products elsewhere.

Whatever a product takes is quantised by the operation that makes it (norm, gated product,
attention): rows of uint8, each with its scale in front; see native/quantised.h.
"""

import ctypes
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from splitpool_worker.engine.indices import Indices
from splitpool_worker.engine.kv_cache import LayerCache
from splitpool_worker.ops.build import NATIVE
from splitpool_worker.ops.cpu import DTYPES, LANES, CpuOps, Kernels
from splitpool_worker.ops.interface import Weight
from splitpool_worker.ops.tape import Recorder, Tape

# Bytes in front of a quantised row, and behind the elements of each row of a packed weight.
HEADER = 64
ROW_EXTRA = 8

_POINTER, _LONG, _FLOAT = ctypes.c_void_p, ctypes.c_long, ctypes.c_float
_SIGNATURES: dict[str, tuple[type[Any], ...]] = {
    "int8_pack": (_POINTER,) * 2 + (_LONG,) * 4,
    "int8_embed": (_POINTER,) * 3 + (_LONG,) * 2,
    "int8_linear": (_POINTER,) * 3 + (_LONG,) * 3,
    "int8_logits": (_POINTER,) * 3 + (_LONG,) * 3,
    "int8_gated": (_POINTER,) * 3 + (_LONG,) * 3,
    "int8_add_rms_norm": (_POINTER,) * 4 + (_FLOAT,) + (_LONG,) * 2,
    "int8_paged_attention": (_POINTER,) * 7 + (_LONG,) * 6,
}


class CpuInt8Ops(CpuOps):
    """Tensors are contiguous and on the CPU; weights and what is not quantised have one dtype."""

    quantization = "int8"

    def __init__(self, threads: int, dtype: torch.dtype, target: Sequence[str] = NATIVE) -> None:
        """Compiles the library if needed. Raises BuildFailed."""
        super().__init__(threads, target)
        self.dtype = dtype
        self._int8: Any = Kernels(self.library, DTYPES[dtype], _SIGNATURES)

    def _packed(self, parts: list[torch.Tensor]) -> Weight:
        rows, columns = parts[0].shape
        held = -(-rows // LANES) * LANES * (columns + ROW_EXTRA)
        data = self._room(len(parts) * held, torch.int8)
        for offset, part in enumerate(parts):
            self._int8.int8_pack(
                data.data_ptr(), part.contiguous().data_ptr(), rows, columns, len(parts), offset
            )
        return Weight(data=data, rows=rows, columns=columns)

    def embed(self, table: Weight, tokens: torch.Tensor) -> torch.Tensor:
        out = self._rows(len(tokens), table.columns, self.dtype)
        self._int8.int8_embed(
            out.data_ptr(), table.data.data_ptr(), tokens.data_ptr(), len(tokens), table.columns
        )
        return out

    def linear(self, x: torch.Tensor, weight: Weight) -> torch.Tensor:
        out = self._rows(x.shape[0], weight.rows, self.dtype)
        self._multiply(self._int8.int8_linear, out, x, weight)
        return out

    def logits(self, x: torch.Tensor, weight: Weight) -> torch.Tensor:
        out = self._rows(x.shape[0], weight.rows, torch.float32)
        self._multiply(self._int8.int8_logits, out, x, weight)
        return out

    def gated(self, x: torch.Tensor, weight: Weight) -> torch.Tensor:
        out = self._quantised(x.shape[0], weight.rows)
        self._multiply(self._int8.int8_gated, out, x, weight)
        return out

    def _add_rms_norm(
        self, residual: torch.Tensor, x: int | None, weight: torch.Tensor, eps: float
    ) -> torch.Tensor:
        out = self._quantised(residual.shape[0], residual.shape[1])
        self._int8.int8_add_rms_norm(
            out.data_ptr(), residual.data_ptr(), x, weight.data_ptr(), eps, *residual.shape
        )
        return out

    def paged_attention(self, qkv: torch.Tensor, at: Indices, cache: LayerCache) -> torch.Tensor:
        width = qkv.shape[1] - 2 * cache.num_kv_heads * cache.head_dim
        out = self._quantised(qkv.shape[0], width)
        self._attend(self._int8.int8_paged_attention, out, qkv, at, cache)
        return out

    def _quantised(self, count: int, columns: int) -> torch.Tensor:
        return self._rows(count, HEADER + columns, torch.uint8)

    @contextmanager
    def _recording(self, tape: Tape) -> Iterator[None]:
        kernels = self._int8
        self._int8 = Recorder(tape)
        try:
            with super()._recording(tape):
                yield
        finally:
            self._int8 = kernels
