"""One step's indices as tensors, made once and read by every layer."""

from dataclasses import dataclass

import numpy as np
import torch

from splitpool_worker.engine.batch import Batch


@dataclass(frozen=True, slots=True, kw_only=True)
class Indices:
    """Where T rows of S sequences are, on the model's device, and the batch that says so."""

    batch: Batch
    tokens: torch.Tensor
    """[T] int64"""
    positions: torch.Tensor
    """[T] int64"""
    slots: torch.Tensor
    """[T] int64"""
    query_start: torch.Tensor
    """[S + 1] int32"""
    context_len: torch.Tensor
    """[S] int32"""
    block_table: torch.Tensor
    """[S, most blocks of a sequence] int32, padded with zeros"""
    sample_rows: torch.Tensor
    """[R] int64"""

    @staticmethod
    def of(batch: Batch, device: torch.device) -> "Indices":
        def tensor(values: list[int], dtype: torch.dtype) -> torch.Tensor:
            return torch.tensor(values, dtype=dtype, device=device)

        return Indices(
            batch=batch,
            tokens=tensor(batch.tokens, torch.int64),
            positions=tensor(batch.positions, torch.int64),
            slots=tensor(batch.slots, torch.int64),
            query_start=tensor(batch.query_start, torch.int32),
            context_len=tensor(batch.context_len, torch.int32),
            block_table=_padded(batch.block_tables).to(device),
            sample_rows=tensor(batch.sample_rows, torch.int64),
        )


def _padded(tables: list[list[int]]) -> torch.Tensor:
    padded = np.zeros((len(tables), max(map(len, tables))), dtype=np.int32)
    for row, table in zip(padded, tables, strict=True):
        row[: len(table)] = table
    return torch.from_numpy(padded)
