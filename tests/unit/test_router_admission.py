"""Admission: bounded in tokens whatever the mix, first come first served, nothing leaks."""

import asyncio
import itertools
import random
import time
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from splitpool_router.errors import NoReadyWorker, QueueFull, QueueTimeout, ShuttingDown
from splitpool_router.fleet.workers import ClassLoad, Endpoint, Report, Worker
from splitpool_router.placing.admission import Claim, ClassQueue, Permit, Rules
from splitpool_router.placing.balancer import pick
from splitpool_router.placing.classify import LatencyClass

CLS = LatencyClass.BATCH


def worker(kv: int, name: str = "w") -> Worker:
    endpoint = Endpoint(pool="p", name=name, classes=frozenset({CLS}), url="http://x", uid="1")
    report = Report(ready=True, load={CLS: ClassLoad(kv_tokens=kv)})
    return Worker(endpoint=endpoint, report=report, reachable=True)


def claim(cost: int) -> Claim:
    return Claim(cost=cost, prefix=b"")


def queue_of(
    *workers: Worker, timeout: float = 60, limit: int | None = None, can_come: bool = True
) -> ClassQueue:
    rules = Rules(
        name="class batch of pool p",
        cls=CLS,
        queue_timeout=timeout,
        max_queue_tokens=limit,
        can_have_workers=can_come,
    )

    def choose(asked: Claim, exclude: Collection[Worker]) -> Worker | None:
        return pick(
            queue.workers,
            cls=CLS,
            cost=asked.cost,
            prefix=b"",
            now=time.monotonic(),
            rng=random.Random(1),
            exclude=exclude,
        )

    queue = ClassQueue(rules, pick=choose, clock=time.monotonic)
    queue.workers = list(workers)
    return queue


class Holder:
    """A task that holds a permit until it is told to let go."""

    def __init__(self, queue: ClassQueue, cost: int, order: list[int], name: int = 0) -> None:
        self.letting_go = asyncio.Event()
        self.permit: Permit | None = None
        self.task = asyncio.create_task(self._hold(queue, cost, order, name))

    async def _hold(self, queue: ClassQueue, cost: int, order: list[int], name: int) -> None:
        with await queue.permit(claim(cost)) as permit:
            self.permit = permit
            order.append(name)
            await self.letting_go.wait()


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


@asynccontextmanager
async def filled(queue: ClassQueue, costs: list[int]) -> AsyncIterator[list[Holder]]:
    order: list[int] = []
    holders = [Holder(queue, cost, order, i) for i, cost in enumerate(costs)]
    await settle()
    try:
        yield holders
    finally:
        for holder in holders:
            holder.task.cancel()
        await asyncio.gather(*(holder.task for holder in holders), return_exceptions=True)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(20, 400), min_size=1, max_size=20), st.integers(1, 3))
def test_a_class_refuses_at_the_same_sum_of_tokens_whatever_the_mix(
    costs: list[int], workers: int
) -> None:
    queue = queue_of(*(worker(400, f"w{i}") for i in range(workers)))
    limit = 5 * 400 * workers
    assert limit - max(costs) < asyncio.run(fill(queue, costs)) <= limit
    assert queue.waiting_tokens == queue.outstanding_tokens == 0


async def fill(queue: ClassQueue, costs: list[int]) -> int:
    """The tokens that the queue takes of endless requests of these costs, until it refuses."""
    holders: list[Holder] = []
    total = 0
    for cost in itertools.cycle(costs):
        holder = Holder(queue, cost, [])
        holders.append(holder)
        await asyncio.sleep(0)
        if holder.task.done():
            break
        total += cost
    for holder in holders:
        holder.task.cancel()
    ends = await asyncio.gather(*(holder.task for holder in holders), return_exceptions=True)
    assert {type(end) for end in ends} == {asyncio.CancelledError, QueueFull}
    return total


async def test_a_permit_is_held_to_the_end_of_its_block_and_no_longer() -> None:
    queue = queue_of(worker(100))
    with await queue.permit(claim(60)):
        assert queue.outstanding_tokens == 60
    assert queue.outstanding_tokens == 0


async def test_a_big_one_is_not_starved_by_small_ones_that_came_later() -> None:
    queue = queue_of(worker(100))
    order: list[int] = []
    first = Holder(queue, 60, order, 1)
    await settle()
    big = Holder(queue, 90, order, 2)
    await settle()
    small = Holder(queue, 10, order, 3)
    await settle()
    assert order == [1]
    first.letting_go.set()
    await settle()
    assert order == [1, 2, 3]
    big.letting_go.set()
    small.letting_go.set()
    await asyncio.gather(first.task, big.task, small.task)


async def test_who_leaves_while_waiting_gives_up_its_place() -> None:
    queue = queue_of(worker(100))
    async with filled(queue, [100, 50]) as (_, waiting):
        assert queue.waiting_requests == 1
        waiting.task.cancel()
        await settle()
        assert (queue.waiting_requests, queue.waiting_tokens) == (0, 0)


async def test_who_leaves_at_the_moment_of_being_granted_gives_the_grant_back() -> None:
    queue = queue_of(worker(100))
    async with filled(queue, [100, 50]) as (first, second):
        assert first.permit is not None
        first.permit.release()
        second.task.cancel()
        await settle()
        assert second.permit is None
        assert queue.outstanding_tokens == 0


async def test_waiting_too_long_is_429_where_workers_are_and_503_where_none_is() -> None:
    busy = queue_of(worker(100), timeout=0.01)
    async with filled(busy, [100]):
        with pytest.raises(QueueTimeout) as late, await busy.permit(claim(10)):
            pass
        assert late.value.retry_after is not None
    empty = queue_of(timeout=0.01)
    with pytest.raises(NoReadyWorker), await empty.permit(claim(10)):
        pass
    assert empty.waiting_requests == busy.waiting_requests == 0


async def test_a_class_that_can_never_have_workers_refuses_at_once_and_for_good() -> None:
    queue = queue_of(can_come=False)
    with pytest.raises(NoReadyWorker) as refused, await queue.permit(claim(1)):
        pass
    assert not refused.value.curable


async def test_requests_wait_for_a_worker_that_starts() -> None:
    queue = queue_of()
    async with filled(queue, [10]) as (holder,):
        assert holder.permit is None
        queue.workers = [worker(100)]
        queue.pump()
        await settle()
        assert holder.permit is not None


async def test_closing_refuses_who_waits_and_who_comes() -> None:
    queue = queue_of(worker(100))
    async with filled(queue, [100, 50]) as (_, waiting):
        queue.close(ShuttingDown("bye"))
        await settle()
        assert isinstance(waiting.task.exception(), ShuttingDown)
        with pytest.raises(ShuttingDown), await queue.permit(claim(1)):
            pass


async def test_a_declared_limit_counts_what_waits_beside_what_the_workers_hold() -> None:
    queue = queue_of(worker(100), limit=50)
    async with filled(queue, [100, 50]):
        with pytest.raises(QueueFull, match="150"), await queue.permit(claim(1)):
            pass


async def test_a_request_larger_than_the_limit_is_served_when_nobody_else_is_there() -> None:
    queue = queue_of(worker(10))
    with await queue.permit(claim(1000)) as permit:
        assert permit.worker is queue.workers[0]


async def test_a_moved_permit_loads_its_new_worker_only() -> None:
    one, two = worker(100, "one"), worker(100, "two")
    queue = queue_of(one, two)
    with await queue.permit(claim(40)) as permit:
        first = permit.worker
        assert permit.move()
        assert permit.worker is not first
        assert (first.held(CLS), permit.worker.held(CLS)) == (0, 40)
    assert one.held(CLS) == two.held(CLS) == 0


async def test_a_permit_that_waits_again_goes_before_who_came_later() -> None:
    one = worker(100)
    queue = queue_of(one)
    order: list[int] = []
    with await queue.permit(claim(100)) as permit:
        later = Holder(queue, 100, order, 2)
        await settle()
        one.reachable = False
        again = asyncio.create_task(permit.wait_again())
        await settle()
        one.reachable = True
        queue.pump()
        await again
        assert order == []
    await settle()
    assert order == [2]
    later.letting_go.set()
    await later.task


async def test_retry_after_follows_the_drain_rate_within_1_and_30() -> None:
    now = 0.0
    queue = queue_of(worker(100))
    queue.clock = lambda: now
    assert queue.retry_after() == 5
    queue.note_drained(100)
    now = 10.0
    queue.note_drained(100)
    queue.waiting_tokens = 100
    assert queue.retry_after() == 5
    queue.waiting_tokens = 10**6
    assert queue.retry_after() == 30
    queue.waiting_tokens = 0
    assert queue.retry_after() == 1
