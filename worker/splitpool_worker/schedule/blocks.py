"""Which KV blocks are free, cached or in use within one class's fixed range of block ids.

A block is in exactly one of three places: `free` (content meaningless), `cached` (nobody holds it,
its content can be found by prefix until the block is needed), or held with a reference count.
"""

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass


class BlockLeak(RuntimeError):
    """The three places do not add up to the partition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """What a full, computed block holds: its chain digest and its own tokens as bytes."""

    digest: bytes
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

    def publish(self, block: int, digest: bytes, tokens: bytes) -> None:
        """Make a block findable, once its K/V are computed; the first of two equal ones stays."""
        if digest not in self._by_digest:
            self._by_digest[digest] = block
            self._published[block] = Published(digest=digest, tokens=tokens)

    def withdraw(self, blocks: list[int]) -> None:
        """Held blocks whose content turned out bad are no longer found."""
        for block in blocks:
            published = self._published.pop(block, None)
            if published is not None:
                del self._by_digest[published.digest]

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
        del self._by_digest[self._published.pop(block).digest]
        return block
