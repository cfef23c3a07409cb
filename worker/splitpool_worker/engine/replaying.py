"""Steps whose operations are said by one call: recorded once, replayed in every step.

What a step is told lies in the same memory each time, so only the numbers there change, and how
many there are.
"""

from __future__ import annotations

from array import array
from typing import Literal

import torch

from splitpool_worker.checkpoint.footprint import REPLAYED_ROWS
from splitpool_worker.engine.batch import Batch
from splitpool_worker.engine.indices import Indices
from splitpool_worker.engine.kv_cache import KVCache
from splitpool_worker.models.llama import Llama
from splitpool_worker.ops.interface import Replay
from splitpool_worker.ops.tape import Results, Scratch, Sizes

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
        self._tokens = _Told("q", REPLAYED_ROWS)
        self._positions = _Told("q", REPLAYED_ROWS)
        self._slots = _Told("q", REPLAYED_ROWS)
        self._sample_rows = _Told("q", REPLAYED_ROWS)
        self._query_start = _Told("i", MOST_SEQUENCES + 1)
        self._context_len = _Told("i", MOST_SEQUENCES)
        self._block_table = _Told("i", MOST_SEQUENCES, -(-max_model_len // block_size))
        self._run = replay(self._forward, model.norm.dtype, Scratch(REPLAYED_ROWS))

    def fits(self, batch: Batch) -> bool:
        return len(batch.tokens) <= REPLAYED_ROWS and len(batch.context_len) <= MOST_SEQUENCES

    def forward(self, batch: Batch) -> Results:
        """Logits of the sampled rows and what is best of each, valid until the next call."""
        self._tokens.tell(batch.tokens)
        self._positions.tell(batch.positions)
        self._slots.tell(batch.slots)
        self._sample_rows.tell(batch.sample_rows)
        self._query_start.tell(batch.query_start)
        self._context_len.tell(batch.context_len)
        for row, table in enumerate(batch.block_tables):
            self._block_table.tell(table, row)
        return self._run(
            Sizes(
                rows=len(batch.tokens),
                sequences=len(batch.context_len),
                sampled=len(batch.sample_rows),
            )
        )

    def _forward(self, sizes: Sizes) -> Results:
        rows, sequences = sizes.rows, sizes.sequences
        at = Indices(
            batch=Batch(),
            tokens=self._tokens.tensor[:rows],
            positions=self._positions.tensor[:rows],
            slots=self._slots.tensor[:rows],
            query_start=self._query_start.tensor[: sequences + 1],
            context_len=self._context_len.tensor[:sequences],
            block_table=self._block_table.tensor[:sequences],
            sample_rows=self._sample_rows.tensor[: sizes.sampled],
        )
        return self._model.forward(at, self._kv)


class _Told:
    """Numbers that steps are told: always in the same memory, which is a tensor as well.

    Of so many, or of so many rows. Arrays and not numpy's, whose code is long out of the caches
    when a step begins.
    """

    def __init__(self, kind: Literal["i", "q"], count: int, columns: int | None = None) -> None:
        self._kind = kind
        numbers = array(kind, [0]) * (count * (columns or 1))
        self.tensor = torch.frombuffer(numbers, dtype=torch.int32 if kind == "i" else torch.int64)
        whole = memoryview(numbers)
        self._rows = [whole]
        if columns is not None:
            self.tensor = self.tensor.view(count, columns)
            self._rows = [whole[i * columns : (i + 1) * columns] for i in range(count)]

    def tell(self, numbers: list[int], row: int = 0) -> None:
        """The first numbers, or those of a row. Raises ValueError where there is no room for them
        all."""
        self._rows[row][: len(numbers)] = array(self._kind, numbers)
