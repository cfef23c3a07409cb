"""Which KV blocks are free, cached or in use within one class's fixed range of block ids.

A block is in exactly one of three places: `free` (content meaningless), `cached` (nobody holds it,
its content can be found by prefix until the block is needed), or held with a reference count.
"""

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass

from splitpool_worker.schedule.prefix import common


class BlockLeak(RuntimeError):
    """The three places do not add up to the partition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """What a computed block holds: its own tokens as bytes, the digest of the chain before them,
    and of the chain with them where they fill the block."""

    parent: bytes
    digest: bytes | None
    tokens: bytes


class BlockPool:
    """Blocks `first` .. `first + count - 1`, of one class only."""

    def __init__(self, *, first: int, count: int) -> None:
        self.first = first
        self.count = count
        self._free = list(range(first + count - 1, first - 1, -1))
        self._cached: OrderedDict[int, None] = OrderedDict()
        self._held: dict[int, int] = {}
        self._published: dict[int, Published] = {}
        self._by_digest: dict[bytes, int] = {}
        self._by_parent: dict[bytes, int] = {}
        """Of the blocks that go on after a chain, the one published last."""

    @property
    def available(self) -> int:
        """Blocks that can be had now, cached ones included."""
        return len(self._free) + len(self._cached)

    @property
    def used(self) -> int:
        return len(self._held)

    @property
    def cached(self) -> int:
        return len(self._cached)

    def meaningless(self) -> list[int]:
        """Blocks whose content nobody may read."""
        return list(self._free)

    def watermark(self) -> int:
        """Blocks that admission leaves free while others run, so that they can grow."""
        return max(1, self.count // 100)

    def find(self, digest: bytes, tokens: bytes) -> int | None:
        """The block with this prefix and exactly these tokens."""
        block = self._by_digest.get(digest)
        if block is None or self._published[block].tokens != tokens:
            return None
        return block

    def alike(self, parent: bytes, tokens: bytes) -> tuple[int, int] | None:
        """A block that goes on after this chain, and with how many of these tokens it begins."""
        block = self._by_parent.get(parent)
        return None if block is None else (block, common(self._published[block].tokens, tokens))

    def cost(self, hits: list[int], fresh: int) -> int:
        """How much `available` falls when these cached blocks and `fresh` new ones are taken."""
        return fresh + sum(1 for block in hits if block not in self._held)

    def take(self, hits: list[int], fresh: int) -> list[int]:
        """Hold the hit blocks and `fresh` new ones; the caller has checked `cost`."""
        for block in hits:
            self._hold(block)
        return hits + [self._fresh() for _ in range(fresh)]

    def grow(self) -> int | None:
        """One more block, or None where there is none."""
        return self._fresh() if self._free or self._cached else None

    def publish(self, block: int, parent: bytes, digest: bytes | None, tokens: bytes) -> None:
        """Make a block findable, once its K/V are computed; the first of two equal ones stays.
        A block that is not full has no digest, and nobody adds to it any more."""
        if digest is not None:
            if digest in self._by_digest:
                return
            self._by_digest[digest] = block
        self._by_parent[parent] = block
        self._published[block] = Published(parent=parent, digest=digest, tokens=tokens)

    def withdraw(self, blocks: list[int]) -> None:
        """Held blocks whose content turned out bad are no longer found."""
        for block in blocks:
            if block in self._published:
                self._unpublish(block)

    def release(self, blocks: list[int]) -> None:
        """Let go of a sequence's blocks; its tail is reused before its head."""
        for block in reversed(blocks):
            holders = self._held[block] - 1
            if holders:
                self._held[block] = holders
                continue
            del self._held[block]
            if block in self._published:
                self._cached[block] = None
            else:
                self._free.append(block)

    def check(self, holders: Iterable[list[int]]) -> None:
        """Raise BlockLeak unless free + cached + used == total and exactly `holders` hold
        blocks."""
        places = len(self._free) + len(self._cached) + len(self._held)
        references = sum(len(blocks) for blocks in holders)
        if places == self.count and references == sum(self._held.values()):
            return
        raise BlockLeak(
            f"blocks {self.first}..{self.first + self.count - 1}: free {len(self._free)} + cached "
            f"{len(self._cached)} + used {len(self._held)} must be {self.count}; references held "
            f"{sum(self._held.values())} must be {references}"
        )

    def _hold(self, block: int) -> None:
        holders = self._held.get(block, 0)
        if not holders:
            del self._cached[block]
        self._held[block] = holders + 1

    def _fresh(self) -> int:
        block = self._free.pop() if self._free else self._evict()
        self._held[block] = 1
        return block

    def _evict(self) -> int:
        block, _ = self._cached.popitem(last=False)
        self._unpublish(block)
        return block

    def _unpublish(self, block: int) -> None:
        published = self._published.pop(block)
        if published.digest is not None:
            del self._by_digest[published.digest]
        if self._by_parent.get(published.parent) == block:
            del self._by_parent[published.parent]
