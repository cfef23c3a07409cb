"""How jobs are offered: an open loop that never waits for answers, or a fixed number in flight."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager

from splitpool_bench.client import Job, Outcome

Send = Callable[[Job], Awaitable[Outcome]]
Watch = Callable[[Outcome], None]


def ignore(_: Outcome) -> None:
    """Watch nothing."""


async def open_loop(
    offsets: Sequence[float], jobs: Iterable[Job], send: Send, watch: Watch = ignore
) -> list[Outcome]:
    """Start each job at its offset from now, whatever became of those before it."""
    start = time.monotonic()
    async with asyncio.TaskGroup() as group:
        tasks: list[asyncio.Task[Outcome]] = []
        for offset, job in zip(offsets, jobs, strict=True):
            await asyncio.sleep(max(0.0, start + offset - time.monotonic()))
            tasks.append(group.create_task(_watched(job, send, watch)))
    return [task.result() for task in tasks]


async def at_once(jobs: Iterable[Job], send: Send, watch: Watch = ignore) -> list[Outcome]:
    """Start all jobs together."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(_watched(job, send, watch)) for job in jobs]
    return [task.result() for task in tasks]


@asynccontextmanager
async def always_in_flight(
    width: int, jobs: Iterator[Job], send: Send
) -> AsyncIterator[list[Outcome]]:
    """Keep `width` jobs waiting or running until the block ends; yields the finished ones."""
    finished: list[Outcome] = []

    async def user() -> None:
        for job in jobs:
            outcome = await send(job)
            finished.append(outcome)

    users = [asyncio.create_task(user()) for _ in range(width)]
    try:
        yield finished
    finally:
        for task in users:
            task.cancel()
        for ended in await asyncio.gather(*users, return_exceptions=True):
            if isinstance(ended, Exception):  # a cancelled user is no Exception
                raise ended


async def _watched(job: Job, send: Send, watch: Watch) -> Outcome:
    outcome = await send(job)
    watch(outcome)
    return outcome
