"""A model without weights: its next token is a hash of the whole prefix as read back from paged KV.

A block table, slot, position or order that is wrong anywhere gives other tokens, or no finite
logits where the KV that is read was never computed or was poisoned.
"""

from collections.abc import Callable, Iterable, Mapping
from hashlib import blake2b
from threading import Event

import torch

from splitpool_worker.engine.batch import Batch
from splitpool_worker.sampling.largest import Best, best

POISON = None
Entry = tuple[int, int] | None
"""Position and running hash of the prefix up to it; None where nothing was computed."""


def best_of(logits: torch.Tensor) -> Best:
    """What a runner says of these logits."""
    values, indices = best(logits)
    return Best(values.tolist(), indices.tolist())


class FakeRunner:
    def __init__(
        self,
        *,
        vocab_size: int = 97,
        max_model_len: int = 256,
        block_size: int = 4,
        num_blocks: int = 64,
    ) -> None:
        self.vocab_size = vocab_size
        self.max_model_len = max_model_len
        self.block_size = block_size
        self.num_blocks = num_blocks
        self.independent_rows = True
        self._best = Best([], [])
        self.kv: list[Entry] = [POISON] * (num_blocks * block_size)
        self.steps: list[Batch] = []
        self.before_step: Callable[[Batch], None] = lambda batch: None
        self.seconds: dict[str, float] = {}
        """By part of a forward pass; empty where only the whole is known."""
        self.gate: Event | None = None
        """While set to an event, a step stays open until the event is set."""
        self.entered = Event()
        """Set once a step has begun."""

    def forward(self, batch: Batch) -> torch.Tensor:
        self.steps.append(batch)
        self.entered.set()
        self.before_step(batch)
        if self.gate is not None and not self.gate.wait(60):
            raise TimeoutError("nobody opened the gate")
        for source, target in batch.copies:
            self.kv[self._slots(target)] = self.kv[self._slots(source)]
        hashes = [h for i in range(len(batch.context_len)) for h in self._rows(batch, i)]
        logits = self._logits([hashes[row] for row in batch.sample_rows])
        self._best = best_of(logits)
        return logits

    def best(self) -> Best:
        return self._best

    def spent(self) -> Mapping[str, float]:
        return self.seconds

    def poison(self, blocks: Iterable[int]) -> None:
        for block in blocks:
            self.kv[self._slots(block)] = [POISON] * self.block_size

    def _slots(self, block: int) -> slice:
        return slice(block * self.block_size, (block + 1) * self.block_size)

    def _rows(self, batch: Batch, i: int) -> list[int | None]:
        """Store the rows of sequence `i`; the hash of the prefix that ends with each."""
        hashes: list[int | None] = []
        for row in range(batch.query_start[i], batch.query_start[i + 1]):
            position = batch.positions[row]
            before = self._prefix(batch.block_tables[i], position)
            value = None if before is None else _mix(before, batch.tokens[row])
            self.kv[batch.slots[row]] = None if value is None else (position, value)
            hashes.append(value)
        return hashes

    def _prefix(self, table: list[int], length: int) -> int | None:
        """The hash of the first `length` tokens, from KV; None where any of it is not there."""
        value = 0
        for position in range(length):
            block, offset = divmod(position, self.block_size)
            entry = self.kv[table[block] * self.block_size + offset]
            if entry is None or entry[0] != position:
                return None
            value = entry[1]
        return value

    def _logits(self, hashes: list[int | None]) -> torch.Tensor:
        logits = torch.zeros(len(hashes), self.vocab_size)
        for row, value in zip(logits, hashes, strict=True):
            if value is None:
                row.fill_(torch.nan)
            else:
                generator = torch.Generator().manual_seed(value)
                row.copy_(torch.randn(self.vocab_size, generator=generator) * 3)
        return logits


def _mix(before: int, token: int) -> int:
    data = before.to_bytes(8, "little") + token.to_bytes(4, "little")
    return int.from_bytes(blake2b(data, digest_size=7).digest(), "little")


def continuation(prompt: Iterable[int], count: int, vocab_size: int = 97) -> list[int]:
    """The greedy continuation that the fake model gives, computed without any cache."""
    runner = FakeRunner(vocab_size=vocab_size)
    value = 0
    for token in prompt:
        value = _mix(value, token)
    tokens: list[int] = []
    for _ in range(count):
        tokens.append(int(runner._logits([value]).argmax()))
        value = _mix(value, tokens[-1])
    return tokens
