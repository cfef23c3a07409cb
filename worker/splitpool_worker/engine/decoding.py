"""Steps of a row for each sequence, recorded once for each number of rows and then replayed.

What such a step is told lies in the same memory each time, so only the numbers there change.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

from splitpool_worker.engine.batch import Batch
from splitpool_worker.engine.indices import Indices
from splitpool_worker.engine.kv_cache import KVCache
from splitpool_worker.models.llama import Llama
from splitpool_worker.ops.interface import Replay
from splitpool_worker.ops.tape import Scratch

MOST_ROWS = 64
"""Of a step that is replayed: beyond that its operations take far longer than saying them."""


class Decoding:
    """Such steps of one model, on a CPU; `replay` is of its operations."""

    def __init__(
        self, replay: Replay, model: Llama, kv: KVCache, max_model_len: int, block_size: int
    ) -> None:
        self._replay = replay
        self._model = model
        self._kv = kv
        self._scratch = Scratch(MOST_ROWS)
        self._forwards: dict[int, Callable[[], torch.Tensor]] = {}
        self._tokens, self._positions, self._slots = np.zeros((3, MOST_ROWS), dtype=np.int64)
        self._query_start = np.arange(MOST_ROWS + 1, dtype=np.int32)
        self._context_len = np.zeros(MOST_ROWS, dtype=np.int32)
        self._block_table = np.zeros((MOST_ROWS, -(-max_model_len // block_size)), dtype=np.int32)

    def fits(self, batch: Batch) -> bool:
        """Whether every sequence has one row, and they are few enough."""
        rows = len(batch.tokens)
        return rows == len(batch.context_len) and rows <= MOST_ROWS

    def indices(self, batch: Batch) -> Indices:
        """Those of a step that fits, in place of those of the step before."""
        rows = len(batch.tokens)
        self._tokens[:rows] = batch.tokens
        self._positions[:rows] = batch.positions
        self._slots[:rows] = batch.slots
        self._context_len[:rows] = batch.context_len
        self._block_table[:rows] = 0
        for row, table in enumerate(batch.block_tables):
            self._block_table[row, : len(table)] = table
        return Indices(
            batch=batch,
            tokens=torch.from_numpy(self._tokens[:rows]),
            positions=torch.from_numpy(self._positions[:rows]),
            slots=torch.from_numpy(self._slots[:rows]),
            query_start=torch.from_numpy(self._query_start[: rows + 1]),
            context_len=torch.from_numpy(self._context_len[:rows]),
            block_table=torch.from_numpy(self._block_table[:rows]),
            sample_rows=torch.tensor(batch.sample_rows, dtype=torch.int64),
        )

    def hidden(self, at: Indices) -> torch.Tensor:
        """What the logits of each row are made of, valid until the next call. `at` is from
        `indices`."""
        rows = len(at.tokens)
        if rows not in self._forwards:
            self._forwards[rows] = self._replay(
                lambda: self._model.hidden(at, self._kv), self._model.norm.dtype, self._scratch
            )
        return self._forwards[rows]()
