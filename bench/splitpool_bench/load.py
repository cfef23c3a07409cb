"""How jobs are offered: an open loop that never waits for answers, or a fixed number in flight."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager

from splitpool_bench.exchange import Job, Outcome

Send = Callable[[Job], Awaitable[Outcome]]
Watch = Callable[[Outcome], None]


def ignore(_: object) -> None:
    """Watch nothing."""


async def open_loop(
    offsets: Sequence[float],
    jobs: Iterable[Job],
    send: Send,
    watch: Watch = ignore,
    late: Callable[[float], None] = ignore,
) -> list[Outcome]:
    """Start each job at its offset from now, whatever became of those before it.

    late: told of each start by how many seconds it came after its time.
    """
    start = time.monotonic()
    async with asyncio.TaskGroup() as group:
        tasks: list[asyncio.Task[Outcome]] = []
        for offset, job in zip(offsets, jobs, strict=True):
            await asyncio.sleep(max(0.0, start + offset - time.monotonic()))
            late(time.monotonic() - start - offset)
            tasks.append(group.create_task(_watched(job, send, watch)))
    return [task.result() for task in tasks]


async def closed_loop(
    users: int, jobs: Iterable[Job], send: Send, watch: Watch = ignore
) -> list[Outcome]:
    """So many users, each with a new job when its last one has ended, until none is left."""
    waiting = enumerate(jobs)
    outcomes: dict[int, Outcome] = {}

    async def user() -> None:
        for number, job in waiting:
            outcomes[number] = await _watched(job, send, watch)

    async with asyncio.TaskGroup() as group:
        for _ in range(users):
            group.create_task(user())
    return [outcomes[number] for number in sorted(outcomes)]


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
