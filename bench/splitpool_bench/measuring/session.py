"""What happens in a measurement, from reaching the servers to the last point?"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import aiohttp

from splitpool_bench.client import session
from splitpool_bench.measuring import goodput, target
from splitpool_bench.measuring.options import ClosedLoop, Goodput, OpenLoop, Options, Replay, Server
from splitpool_bench.measuring.point import Point, WarmUp
from splitpool_bench.measuring.result import Measured, Result
from splitpool_bench.measuring.running import Runner, Start
from splitpool_bench.progress import Progress

BETWEEN_SERVERS = 1.0  # seconds in which the one that was loaded comes to rest


@dataclass(slots=True, kw_only=True)
class _Run:
    """One server, and what was found of it so far."""

    runner: Runner
    warm_up: WarmUp
    points: list[Point] = field(default_factory=list)
    search: goodput.Search | None = None

    def measured(self, *, repeated: bool) -> Measured:
        return Measured(
            url=self.runner.where.url,
            model=self.runner.where.model,
            counting=self.runner.counting,
            warm_up=self.warm_up,
            points=tuple(self.points),
            goodput=self.search.found if self.search else None,
            repeated=repeated,
        )


async def measure(
    options: Options,
    servers: Sequence[Server],
    about: dict[str, Any],
    *,
    repeats: int = 1,
    start: Start = Progress,
) -> Result:
    """One server, or two in turns. Raises CannotMeasure.

    Cancelled, it still returns the points that were whole by then.
    """
    runs: list[_Run] = []
    interrupted = False
    async with session() as http:
        try:
            for server in servers:
                runs.append(await _warm(http, server, options, start, salt=len(runs)))
            if len(runs) == 1:
                await _points(runs[0], options)
            else:
                await _in_turns(runs, options, repeats)
        except asyncio.CancelledError:
            if not any(run.points for run in runs):
                raise
            interrupted = True
    return Result(
        options=options,
        about=about,
        servers=tuple(run.measured(repeated=len(servers) > 1) for run in runs),
        interrupted=interrupted,
    )


async def _warm(
    http: aiohttp.ClientSession, server: Server, options: Options, start: Start, *, salt: int
) -> _Run:
    where = await target.reach(http, server, options)
    runner = Runner(where, options, start, salt=salt)
    return _Run(runner=runner, warm_up=await runner.warm_up())


async def _points(run: _Run, options: Options) -> None:
    match options.load:
        case OpenLoop(rates=rates, process=process):
            for number, rate in enumerate(rates):
                run.points.append(await run.runner.at_rate(rate, process, options.seed + number))
        case Goodput() as goal:
            await _search(run, options, goal)
        case _:
            run.points.append(await _one(run.runner, options, options.seed))


async def _search(run: _Run, options: Options, goal: Goodput) -> None:
    run.search = goodput.Search(first=goal.first, precision=goal.precision)

    async def probe(rate: float) -> Point:
        seed = options.seed + len(run.points)
        run.points.append(await run.runner.at_rate(rate, goal.process, seed))
        return run.points[-1]

    cls = options.mix.latency_class
    await goodput.search(
        run.search, probe, lambda point: goodput.why_not(point, options.targets, cls)
    )


async def _in_turns(runs: Sequence[_Run], options: Options, repeats: int) -> None:
    """A B, B A, A B, ...: what changes on the machine meanwhile meets both alike."""
    for repeat in range(repeats):
        for run in runs if repeat % 2 == 0 else reversed(runs):
            point = await _one(run.runner, options, options.seed + repeat)
            run.points.append(replace(point, name=f"repeat {repeat + 1}: {point.name}"))
            await asyncio.sleep(BETWEEN_SERVERS)


async def _one(runner: Runner, options: Options, seed: int) -> Point:
    """One point of a load that has only one."""
    match options.load:
        case OpenLoop(rates=(rate, *_), process=process):
            return await runner.at_rate(rate, process, seed)
        case ClosedLoop(users=users):
            return await runner.with_users(users, seed)
        case Replay(requests=requests, file=file):
            return await runner.replay(requests, f"trace {file.name}", seed)
    raise TypeError(f"{options.load} has no single point")
