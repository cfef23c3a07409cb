"""Work goes on whatever becomes of single pools, and a standstill is noticed."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from splitpool_operator.cluster.kube import Closing, Refused, Unavailable
from splitpool_operator.cluster.working import Work
from splitpool_operator.cluster.workqueue import Key

A, B = ("ns", "a"), ("ns", "b")


@contextlib.asynccontextmanager
async def working(work: Work) -> AsyncIterator[None]:
    task = asyncio.create_task(work.run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def passes(count: int = 20) -> None:
    """Let everything that is due run."""
    for _ in range(count):
        await asyncio.sleep(0)


@pytest.mark.parametrize(
    "trouble", [Refused("no"), Unavailable("later"), Closing("going"), KeyError("a bug")]
)
async def test_a_pool_that_fails_does_not_stop_the_others(trouble: Exception) -> None:
    done: list[Key] = []

    async def reconcile(key: Key) -> None:
        if key == A:
            raise trouble
        done.append(key)

    work = Work(reconcile)
    work.add(A, 0)
    work.add(B, 0)
    async with working(work):
        await passes()
    assert done == [B]


async def test_a_pool_of_a_namespace_that_goes_is_not_tried_again() -> None:
    now, tried = 0.0, 0

    async def reconcile(_: Key) -> None:
        nonlocal tried
        tried += 1
        raise Closing("the namespace is being terminated")

    work = Work(reconcile, lambda: now)
    work.add(A, 0)
    async with working(work):
        await passes()
        now = 1000.0
        await passes()
    assert tried == 1
    assert work.standstill() == 0.0


async def test_work_of_which_nothing_gets_done_is_a_standstill() -> None:
    now = 0.0
    go_on = asyncio.Event()

    async def reconcile(_: Key) -> None:
        await go_on.wait()

    work = Work(reconcile, lambda: now)
    for number in range(20):
        work.add(("ns", str(number)), 0)
    async with working(work):
        await passes()
        now = 100.0
        assert work.standstill() == 100.0
        go_on.set()
        await passes(3)
        assert work.standstill() == 0.0


async def test_an_operator_without_work_does_not_stand_still() -> None:
    now = 0.0

    async def reconcile(_: Key) -> None:
        return None

    work = Work(reconcile, lambda: now)
    now = 1000.0
    assert work.standstill() == 0.0
    work.add(A, 0)
    now = 1001.0
    assert work.standstill() == 1.0
