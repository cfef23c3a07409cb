"""Steps whose operations are said by one call: recorded once, replayed in every step.

What a step is told lies in the same memory each time, so only the numbers there change, and how
many there are.
"""

from __future__ import annotations

import numpy as np
import torch

from splitpool_worker.checkpoint.footprint import REPLAYED_ROWS
from splitpool_worker.engine.batch import Batch
from splitpool_worker.engine.indices import Indices
from splitpool_worker.engine.kv_cache import KVCache
from splitpool_worker.models.llama import Llama
from splitpool_worker.ops.interface import Replay
from splitpool_worker.ops.tape import Scratch, Sizes

MOST_SEQUENCES = 256


class Replaying:
    """Such steps of one model, on a CPU; `replay` is of its operations.

    Between the operations of other steps Python is asked, and so waits for the threads that send
    what the step before gave.
    """

    def __init__(
        self, replay: Replay, model: Llama, kv: KVCache, max_model_len: int, block_size: int
    ) -> None:
        self._model = model
        self._kv = kv
        rows = np.zeros((4, REPLAYED_ROWS), dtype=np.int64)
        self._tokens, self._positions, self._slots, self._sample_rows = rows
        self._query_start = np.zeros(MOST_SEQUENCES + 1, dtype=np.int32)
        self._context_len = np.zeros(MOST_SEQUENCES, dtype=np.int32)
        blocks = -(-max_model_len // block_size)
        self._block_table = np.zeros((MOST_SEQUENCES, blocks), dtype=np.int32)
        self._run = replay(self._hidden, model.norm.dtype, Scratch(REPLAYED_ROWS))

    def fits(self, batch: Batch) -> bool:
        return len(batch.tokens) <= REPLAYED_ROWS and len(batch.context_len) <= MOST_SEQUENCES

    def hidden(self, batch: Batch) -> torch.Tensor:
        """What the logits of the sampled rows are made of, valid until the next call."""
        rows, sequences, sampled = len(batch.tokens), len(batch.context_len), len(batch.sample_rows)
        self._tokens[:rows] = batch.tokens
        self._positions[:rows] = batch.positions
        self._slots[:rows] = batch.slots
        self._sample_rows[:sampled] = batch.sample_rows
        self._query_start[: sequences + 1] = batch.query_start
        self._context_len[:sequences] = batch.context_len
        for row, table in zip(self._block_table, batch.block_tables, strict=False):
            row[: len(table)] = table
        return self._run(Sizes(rows=rows, sequences=sequences, sampled=sampled))

    def _hidden(self, sizes: Sizes) -> torch.Tensor:
        at = Indices(
            batch=Batch(),
            tokens=torch.from_numpy(self._tokens[: sizes.rows]),
            positions=torch.from_numpy(self._positions[: sizes.rows]),
            slots=torch.from_numpy(self._slots[: sizes.rows]),
            query_start=torch.from_numpy(self._query_start[: sizes.sequences + 1]),
            context_len=torch.from_numpy(self._context_len[: sizes.sequences]),
            block_table=torch.from_numpy(self._block_table[: sizes.sequences]),
            sample_rows=torch.from_numpy(self._sample_rows[: sizes.sampled]),
        )
        return self._model.hidden(at, self._kv)
