"""One latency class inside the scheduler: who runs, who waits, and the blocks they hold.

A sequence of the lane is in one of three states: running (it has a slot and blocks), waiting (no
slot, no blocks), or parked (no slot, but it keeps its blocks: an orphan that made way).
"""

from collections.abc import Iterator

from splitpool_worker.schedule.blocks import BlockPool
from splitpool_worker.schedule.lengths import Lengths
from splitpool_worker.schedule.limits import ClassLimits, WorkerLimits
from splitpool_worker.schedule.preempt import MAX_PREEMPTIONS, victim
from splitpool_worker.schedule.prefix import digest, pack, root
from splitpool_worker.schedule.sequence import Sequence
from splitpool_worker.schedule.stats import ClassLoad
from splitpool_worker.schedule.utilisation import (
    ContinuousUtilisation,
    StaticUtilisation,
    Utilisation,
)
from splitpool_worker.schedule.waiting import Waiting


class Lane:
    def __init__(self, limits: ClassLimits, worker: WorkerLimits, *, first_block: int) -> None:
        self.limits = limits
        self.longest = worker.longest(limits)
        self.pool = BlockPool(first=first_block, count=limits.kv_blocks)
        self.running: dict[str, Sequence] = {}
        self.parked: dict[str, Sequence] = {}
        self.waiting = Waiting()
        self.lengths = Lengths(self.longest)
        self.utilisation: Utilisation = (
            StaticUtilisation() if worker.static else ContinuousUtilisation(limits.max_batch)
        )
        self.preemptions = 0
        self.query_tokens = 0
        self.hit_tokens = 0
        self.produced = 0
        """Sequences that got tokens in the step in progress."""
        self.copies: list[tuple[int, int]] = []
        """Blocks whose content the next step copies before all else, and where to."""
        self._block_size = worker.block_size

    @property
    def busy(self) -> bool:
        """Whether a client waits or has its prompt prefilled."""
        return self.waiting.clients > 0 or any(
            not (sequence.decoding or sequence.orphan) for sequence in self.running.values()
        )

    @property
    def serving(self) -> bool:
        """Whether a sequence runs whose client is there."""
        return self.free_slots() < self.limits.max_batch

    @property
    def idle(self) -> bool:
        return not self.running and not len(self.waiting)

    @property
    def kv_used_tokens(self) -> int:
        return self.pool.used * self._block_size

    @property
    def orphaned(self) -> bool:
        """Whether any sequence that could run has no client."""
        return self.waiting.orphans > 0 or any(s.orphan for s in self.running.values())

    def prefilling(self, *, orphans: bool) -> list[Sequence]:
        """Running sequences with a prompt to prefill, oldest first."""
        started = [s for s in self.running.values() if not s.decoding and s.orphan == orphans]
        return sorted(started, key=lambda sequence: sequence.submitted)

    def decoding(self, *, orphans: bool) -> list[Sequence]:
        return [s for s in self.running.values() if s.decoding and s.orphan == orphans]

    def holders(self) -> Iterator[Sequence]:
        """Whoever holds blocks."""
        yield from self.running.values()
        yield from self.parked.values()

    def free_slots(self) -> int:
        """Slots a client could have; those of orphans are as good as free."""
        return self.limits.max_batch - sum(1 for s in self.running.values() if not s.orphan)

    def slot_for(self, sequence: Sequence) -> bool:
        """Whether this waiting sequence could have a slot now."""
        return len(self.running) < self.limits.max_batch or (
            not sequence.orphan and self.free_slots() > 0
        )

    def admit(self, sequence: Sequence, now: float) -> bool:
        """Start a waiting sequence for which there is a slot: with blocks for its whole prompt,
        or not at all."""
        if not (self._resume(sequence) if sequence.blocks else self._allocate(sequence)):
            return False
        if len(self.running) >= self.limits.max_batch:
            self.park(next(other for other in self.running.values() if other.orphan))
        self.waiting.discard(sequence)
        self.parked.pop(sequence.id, None)
        self.running[sequence.id] = sequence
        sequence.skipped = 0
        if sequence.first_scheduled is None:
            sequence.first_scheduled = now
            sequence.cached_tokens = sequence.computed
        return True

    def park(self, sequence: Sequence) -> None:
        """Take an orphan's slot; its blocks stay its own while there is room."""
        del self.running[sequence.id]
        self.parked[sequence.id] = sequence
        self.waiting.push(sequence)

    def grown(self, sequences: list[Sequence]) -> list[Sequence]:
        """Those of these running sequences whose next token has a block to go to, after giving out
        new blocks and, where there are none, preempting."""
        full = [s for s in sequences if s.computed == len(s.blocks) * self._block_size]
        if not full:
            return sequences
        for sequence in full:
            if sequence.blocks:  # else it was preempted for one before it
                self._grow(sequence)
        return [s for s in sequences if s.computed < len(s.blocks) * self._block_size]

    def reach(self, sequence: Sequence, count: int) -> int:
        """For how many tokens behind the next one a sequence has blocks, up to `count`, after
        giving it what is free; nobody is preempted for a guess."""
        needed = sequence.computed + 1 + count
        while len(sequence.blocks) * self._block_size < needed:
            if self.pool.available <= self.pool.watermark() or (block := self.pool.grow()) is None:
                break
            sequence.blocks.append(block)
        return min(count, len(sequence.blocks) * self._block_size - sequence.computed - 1)

    def preempt(self, sequence: Sequence) -> None:
        """Free a sequence's blocks; it waits, ahead of those never admitted, to start over."""
        self.preemptions += 1
        self._forget(sequence)
        sequence.preemptions += 1
        self.waiting.push_front(sequence)

    def leave(self, sequence: Sequence) -> None:
        """A sequence is finished, failed or aborted."""
        ran = sequence.id in self.running
        self._forget(sequence)
        if ran:
            self.utilisation.left(sequence.outputs, last=not self.running)

    def publish(self, sequence: Sequence) -> None:
        """Let others find the full blocks whose K/V this sequence has computed."""
        full = sequence.computed // self._block_size
        if sequence.published == full or not self.limits.prefix_cache:
            return
        for index in range(sequence.published, full):
            name, tokens = self._name(sequence, index)
            self.pool.publish(sequence.blocks[index], _parent(sequence, index), name, tokens)
        sequence.published = full

    def publish_tail(self, sequence: Sequence) -> None:
        """Let others find what a sequence that ends has computed of its last, partial block."""
        full, rest = divmod(sequence.computed, self._block_size)
        if rest and self.limits.prefix_cache:
            tokens = pack(sequence.tokens[full * self._block_size : sequence.computed])
            self.pool.publish(sequence.blocks[full], _parent(sequence, full), None, tokens)

    def distrust(self, sequence: Sequence) -> None:
        """Nobody may reuse what this sequence has computed."""
        self.pool.withdraw(sequence.blocks)

    def end_step(self, *, ran: bool) -> None:
        """A step is over, in which this class had tokens or not."""
        if ran:
            self.utilisation.step(self.produced)
        self.produced = 0

    def load(self) -> ClassLoad:
        running = sum(sequence.outstanding for sequence in self.running.values())
        return ClassLoad(
            outstanding_tokens=running + self.waiting.tokens,
            waiting=len(self.waiting),
            running=len(self.running),
            waiting_tokens=self.waiting.tokens,
            kv_tokens=self.pool.count * self._block_size,
            kv_used_tokens=self.kv_used_tokens,
            max_batch=self.limits.max_batch,
            token_budget=self.limits.token_budget,
        )

    def check(self) -> None:
        """Raise BlockLeak when the blocks do not add up."""
        self.pool.check(sequence.blocks for sequence in self.holders())

    def _grow(self, sequence: Sequence) -> None:
        """One more block for a sequence, unless it has itself the least to lose."""
        while sequence.blocks:
            block = self.pool.grow()
            if block is not None:
                sequence.blocks.append(block)
                return
            loser = victim(self.holders())
            if loser is None:
                return
            self.preempt(loser)

    def _resume(self, sequence: Sequence) -> bool:
        """Make sure one that kept its blocks can go on; where it cannot, it has to start over."""
        if sequence.computed < len(sequence.blocks) * self._block_size:
            return True
        if self._reclaim(sequence, [], 1) or self.pool.available:
            sequence.blocks += self.pool.take([], 1)
            return True
        self.preempt(sequence)
        return False

    def _allocate(self, sequence: Sequence) -> bool:
        hits = self._hits(sequence)
        part = self._part(sequence, len(hits))
        fresh = -(-self._claim(sequence) // self._block_size) - len(hits)
        if not self._reclaim(sequence, hits, fresh):
            return False
        sequence.blocks = self.pool.take(hits, fresh)
        sequence.computed = len(hits) * self._block_size
        sequence.published = len(hits)
        if part is not None:
            source, count = part
            self.copies.append((source, sequence.blocks[len(hits)]))
            sequence.computed += count
        self.query_tokens += len(sequence.tokens)
        self.hit_tokens += sequence.computed
        return True

    def _claim(self, sequence: Sequence) -> int:
        """Tokens to hold blocks for: the prompt, or all there can be once preemption is over."""
        if sequence.preemptions < MAX_PREEMPTIONS:
            return len(sequence.tokens)
        return min(sequence.prompt_tokens + sequence.request.max_tokens, self.longest)

    def _reclaim(self, sequence: Sequence, hits: list[int], fresh: int) -> bool:
        """Whether these blocks can be had, if need be at the cost of orphans."""
        orphans = [] if sequence.orphan else [other for other in self.holders() if other.orphan]
        reclaimable = sum(len(other.blocks) for other in orphans)
        if self._shortage(hits, fresh) > reclaimable:
            return False
        while self._shortage(hits, fresh) > 0 and (loser := victim(orphans)) is not None:
            orphans.remove(loser)
            self.preempt(loser)
        return self._shortage(hits, fresh) <= 0

    def _shortage(self, hits: list[int], fresh: int) -> int:
        """Blocks missing, with a watermark that lets those who run grow."""
        spare = self.pool.watermark() if self.running else 0
        return self.pool.cost(hits, fresh) + spare - self.pool.available

    def _hits(self, sequence: Sequence) -> list[int]:
        """Cached blocks of the leading tokens. The last token is always computed: its logits are
        what the sequence is here for."""
        hits: list[int] = []
        if not self.limits.prefix_cache:
            return hits
        for index in range((len(sequence.tokens) - 1) // self._block_size):
            block = self.pool.find(*self._name(sequence, index))
            if block is None:
                break
            hits.append(block)
        return hits

    def _part(self, sequence: Sequence, index: int) -> tuple[int, int] | None:
        """A block that begins like this one of the sequence, and the tokens worth copying from it.
        It needs no hold: it is copied before the next step writes to any block."""
        if not self.limits.prefix_cache:
            return None
        start = index * self._block_size
        tokens = sequence.tokens[start : min(start + self._block_size, len(sequence.tokens) - 1)]
        found = self.pool.alike(_parent(sequence, index), pack(tokens))
        return found if found is not None and found[1] * 4 >= self._block_size else None

    def _name(self, sequence: Sequence, index: int) -> tuple[bytes, bytes]:
        """Digest and tokens of a full block; blocks before it are named already."""
        start = index * self._block_size
        tokens = pack(sequence.tokens[start : start + self._block_size])
        if index == len(sequence.chain):
            sequence.chain.append(digest(_parent(sequence, index), tokens))
        return sequence.chain[index], tokens

    def _forget(self, sequence: Sequence) -> None:
        self.running.pop(sequence.id, None)
        self.parked.pop(sequence.id, None)
        self.waiting.discard(sequence)
        self.pool.release(sequence.blocks)
        sequence.blocks = []
        sequence.computed = 0
        sequence.decoding = False
        sequence.published = 0


def _parent(sequence: Sequence, index: int) -> bytes:
    """The digest of the chain before a block, all of whose blocks are named already."""
    return sequence.chain[index - 1] if index else root(sequence.request.salt)
