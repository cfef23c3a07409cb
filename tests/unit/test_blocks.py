"""Blocks of a partition are free, cached or held, never two of these and never another's."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from scheduling import INTERACTIVE, Drive, class_limits, request, worker_limits
from splitpool_worker.schedule.blocks import BlockLeak, BlockPool
from splitpool_worker.schedule.prefix import digest, pack, root

TOKENS = pack([1, 2, 3, 4])
ROOT = root(b"")


def name(text: str) -> bytes:
    return digest(root(b""), text.encode())


def test_a_pool_hands_out_its_own_range_lowest_first() -> None:
    pool = BlockPool(first=10, count=3)
    assert pool.take([], 3) == [10, 11, 12]
    assert pool.grow() is None


def test_a_published_block_is_found_after_its_holder_left_and_until_it_is_needed() -> None:
    pool = BlockPool(first=0, count=2)
    (block,) = pool.take([], 1)
    pool.publish(block, ROOT, name("a"), TOKENS)
    pool.release([block])

    assert pool.find(name("a"), TOKENS) == block
    assert (pool.used, pool.cached, pool.available) == (0, 1, 2)
    pool.take([], 2)
    assert pool.find(name("a"), TOKENS) is None


def test_blocks_that_were_never_published_are_used_before_cached_ones() -> None:
    pool = BlockPool(first=0, count=2)
    cached, plain = pool.take([], 2)
    pool.publish(cached, ROOT, name("a"), TOKENS)
    pool.release([cached, plain])

    assert pool.take([], 1) == [plain]
    assert pool.find(name("a"), TOKENS) == cached


def test_the_least_recently_released_block_is_evicted_first_and_tails_before_heads() -> None:
    pool = BlockPool(first=0, count=4)
    old, head, tail, other = pool.take([], 4)
    for i, block in enumerate((old, head, tail, other)):
        pool.publish(block, ROOT, name(str(i)), TOKENS)
    pool.release([old])
    pool.release([head, tail])
    pool.release([other])

    assert pool.take([], 4) == [old, tail, head, other]


def test_a_hit_takes_a_block_out_of_the_middle_of_the_cache() -> None:
    pool = BlockPool(first=0, count=3)
    blocks = pool.take([], 3)
    for i, block in enumerate(blocks):
        pool.publish(block, ROOT, name(str(i)), TOKENS)
        pool.release([block])
    assert pool.cost([blocks[1]], 1) == 2
    assert pool.take([blocks[1]], 2) == [blocks[1], blocks[0], blocks[2]]


def test_a_shared_block_is_free_only_when_its_last_holder_left() -> None:
    pool = BlockPool(first=0, count=1)
    (block,) = pool.take([], 1)
    pool.publish(block, ROOT, name("a"), TOKENS)
    assert pool.take([block], 0) == [block]
    assert pool.cost([block], 0) == 0
    pool.release([block])
    assert pool.used == 1
    pool.release([block])
    assert pool.used == 0


def test_a_hit_needs_the_same_tokens_not_only_the_same_digest() -> None:
    pool = BlockPool(first=0, count=1)
    (block,) = pool.take([], 1)
    pool.publish(block, ROOT, name("a"), TOKENS)
    assert pool.find(name("a"), pack([1, 2, 3, 5])) is None


def test_of_two_equal_blocks_the_first_stays_findable() -> None:
    pool = BlockPool(first=0, count=2)
    one, two = pool.take([], 2)
    pool.publish(one, ROOT, name("a"), TOKENS)
    pool.publish(two, ROOT, name("a"), TOKENS)
    pool.release([two])
    assert pool.find(name("a"), TOKENS) == one
    assert pool.meaningless() == [two]


def test_a_withdrawn_block_is_never_found_again() -> None:
    pool = BlockPool(first=0, count=1)
    (block,) = pool.take([], 1)
    pool.publish(block, ROOT, name("a"), TOKENS)
    pool.withdraw([block])
    pool.release([block])
    assert pool.find(name("a"), TOKENS) is None
    assert pool.meaningless() == [block]


def test_a_block_that_nobody_accounts_for_is_a_leak_with_its_numbers() -> None:
    pool = BlockPool(first=0, count=5)
    blocks = pool.take([], 2)
    pool.check([blocks])
    with pytest.raises(BlockLeak, match="free 3 \\+ cached 0 \\+ used 2 must be 5"):
        pool.check([])


def test_chains_differ_by_parent_tokens_and_salt() -> None:
    names = {
        digest(root(salt), tokens)
        for salt in (b"", b"a", b"b")
        for tokens in (pack([1]), pack([2]))
    }
    assert len(names) == 6
    assert digest(digest(root(b""), TOKENS), TOKENS) != digest(root(b""), TOKENS)


def cached_tokens(drive: Drive, second: str, **request_fields: object) -> int:
    """Tokens that a request with the prompt 0..19 takes from the cache that "first" left behind."""
    drive.add(request("first", prompt=list(range(20)), out=1))
    drive.run()
    drive.add(request(second, out=1, **request_fields))  # type: ignore[arg-type]
    drive.run()
    return next(o.first.cached_tokens for o in drive.outputs if o.request_id == second and o.first)


@pytest.mark.parametrize(
    ("length", "hit"), [(3, 2), (4, 3), (5, 4), (8, 7), (19, 18), (20, 19), (21, 20), (40, 20)]
)
def test_a_hit_covers_all_that_is_known_and_leaves_the_last_token_to_compute(
    length: int, hit: int
) -> None:
    drive = Drive(worker_limits())
    assert cached_tokens(drive, "second", prompt=list(range(length))) == hit
    assert drive.plans[-1].tokens == length - hit


def test_another_tenant_does_not_hit() -> None:
    assert cached_tokens(Drive(worker_limits()), "second", prompt=list(range(20)), salt=b"x") == 0


def test_without_prefix_cache_nothing_hits() -> None:
    drive = Drive(worker_limits(class_limits(prefix_cache=False)))
    assert cached_tokens(drive, "second", prompt=list(range(20))) == 0


def test_a_block_is_reusable_only_once_its_tokens_are_computed() -> None:
    drive = Drive(worker_limits(class_limits(prefill_chunk=8)))
    prompt = list(range(40))
    drive.add(request("first", prompt=prompt, out=1), request("other", prompt=40))
    drive.step()
    drive.add(request("second", prompt=prompt, out=1))
    starts = {share.sequence.id: share.start for share in drive.scheduler.plan(0.0).shares}

    assert starts == {"first": 8, "other": 8, "second": 8}


def test_what_two_prompts_share_of_a_block_is_copied_before_the_rest_is_computed() -> None:
    drive = Drive(worker_limits())
    assert cached_tokens(drive, "second", prompt=[*range(14), 50, 51, 52]) == 14
    assert len(drive.plans[-1].copies) == 1
    assert drive.plans[-1].shares[0].start == 14


def test_too_little_of_a_block_to_be_worth_a_copy_is_computed() -> None:
    limits = worker_limits(block_size=16)
    assert cached_tokens(Drive(limits), "second", prompt=[0, 1, 2, 50, 51, 52]) == 0
    assert cached_tokens(Drive(limits), "second", prompt=[0, 1, 2, 3, 51, 52]) == 4


def test_a_partial_block_is_found_by_what_is_before_it_until_it_is_needed() -> None:
    pool = BlockPool(first=0, count=1)
    (block,) = pool.take([], 1)
    pool.publish(block, ROOT, None, TOKENS[:12])
    pool.release([block])

    assert pool.alike(ROOT, TOKENS) == (block, 3)
    assert pool.alike(ROOT, pack([1, 5, 3])) == (block, 1)
    assert pool.alike(name("a"), TOKENS) is None
    pool.take([], 1)
    assert pool.alike(ROOT, TOKENS) is None


def test_of_blocks_that_go_on_alike_the_newest_is_found_until_it_is_withdrawn() -> None:
    pool = BlockPool(first=0, count=2)
    old, new = pool.take([], 2)
    pool.publish(old, ROOT, None, TOKENS[:8])
    pool.publish(new, ROOT, name("a"), TOKENS)
    assert pool.alike(ROOT, TOKENS) == (new, 4)
    pool.withdraw([new])
    pool.release([old, new])
    assert pool.alike(ROOT, TOKENS) is None


def test_the_next_turn_of_a_conversation_reuses_prompt_and_answer_of_the_last() -> None:
    drive = Drive(worker_limits())
    drive.add(request("turn 1", prompt=list(range(10)), out=11))
    drive.run()
    drive.add(request("turn 2", prompt=[*range(10), *[7] * 11, 1, 2, 3], out=1))
    drive.run()

    assert drive.plans[-1].shares[0].start == 20
    assert not drive.plans[-1].copies


class Holding(RuleBasedStateMachine):
    """Takes, grows, publishes and releases in any order, against a list of what is held."""

    def __init__(self) -> None:
        super().__init__()
        self.pool = BlockPool(first=7, count=12)
        self.held: list[list[int]] = []
        self.published = 0

    @rule(size=st.integers(0, 5), hits=st.integers(0, 3))
    def take(self, size: int, hits: int) -> None:
        found = [self.pool.find(name(str(i)), TOKENS) for i in range(self.published)]
        chosen = [block for block in found if block is not None][:hits]
        if self.pool.cost(chosen, size) <= self.pool.available:
            before = self.pool.available - self.pool.cost(chosen, size)
            self.held.append(self.pool.take(chosen, size))
            assert self.pool.available == before

    @precondition(lambda self: self.held)
    @rule()
    def grow(self) -> None:
        could = self.pool.available > 0
        block = self.pool.grow()
        assert (block is not None) == could
        if block is not None:
            self.held[-1].append(block)

    @precondition(lambda self: self.held)
    @rule(which=st.integers(0, 100), bad=st.booleans())
    def publish(self, which: int, bad: bool) -> None:
        for block in self.held[which % len(self.held)]:
            if block not in self.pool._published:
                self.pool.publish(block, ROOT, name(str(self.published)), TOKENS)
                self.published += 1

    @precondition(lambda self: self.held)
    @rule(which=st.integers(0, 100))
    def release(self, which: int) -> None:
        self.pool.release(self.held.pop(which % len(self.held)))

    @invariant()
    def every_block_is_in_one_place(self) -> None:
        self.pool.check(self.held)
        distinct = {block for blocks in self.held for block in blocks}
        assert distinct <= set(range(7, 19))
        assert self.pool.used == len(distinct)


TestHolding = Holding.TestCase
TestHolding.settings = settings(max_examples=40, deadline=None)


def test_classes_have_disjoint_ranges_that_cover_the_cache() -> None:
    interactive, batch = class_limits(kv_blocks=5), class_limits(kv_blocks=7)
    limits = worker_limits(interactive, batch)
    assert sum(of.kv_blocks for of in limits.classes) == 12
    drive = Drive(worker_limits(class_limits(INTERACTIVE, kv_blocks=5)))
    assert drive.scheduler.lanes[INTERACTIVE].pool.first == 0
