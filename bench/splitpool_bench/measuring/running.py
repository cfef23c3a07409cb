"""How is one server measured: reached, warmed up, loaded point by point?"""

import itertools
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from splitpool_bench.arrivals import constant, poisson
from splitpool_bench.exchange import Job, Outcome
from splitpool_bench.load import always_in_flight, at_once, closed_loop, open_loop
from splitpool_bench.measuring import generator, scraping, served, target
from splitpool_bench.measuring.options import Counting, Options, Process
from splitpool_bench.measuring.planned import Planned, Writer
from splitpool_bench.measuring.point import Point, WarmUp
from splitpool_bench.measuring.target import CannotMeasure, Target
from splitpool_bench.progress import Progress
from splitpool_bench.prompts import by_bytes

Start = Callable[[str, int | None], Progress]
Load = Callable[[generator.Watch], Awaitable[list[Outcome]]]
_WARM_UP_SEED = 0


class Runner:
    """One server, ready to be loaded; `salt` keeps the words for two servers apart."""

    def __init__(
        self, where: Target, options: Options, start: Start = Progress, *, salt: int = 0
    ) -> None:
        self.where = where
        self.counting: Counting = "bytes"
        self._options = options
        self._start = start
        self._salt = salt
        self._writer = Writer(vocabulary=by_bytes(), ignore_eos=options.ignore_eos)

    async def warm_up(self) -> WarmUp:
        """The first request as the server was found, then the tokenizer, then `warm_up` more.

        Raises CannotMeasure where no request succeeds.
        """
        (job, *_) = self._jobs(self._warm_up_plan(1), "first")
        first = await self.where.client.complete(job)
        if first.failure:
            raise CannotMeasure(_refused(first, self.where))
        vocabulary, self.counting = await target.vocabulary(self.where)
        self._writer = replace(
            self._writer, vocabulary=vocabulary, shared_prefix=self._options.shared_prefix
        )
        jobs = self._jobs(self._warm_up_plan(self._options.warm_up), "warm-up")
        outcomes = await at_once(jobs, self.where.client.complete)
        if outcomes and all(each.failure for each in outcomes):
            raise CannotMeasure(_refused(outcomes[0], self.where))
        return WarmUp(first_ttft=first.ttft, outcomes=outcomes)

    async def at_rate(self, rate: float, process: Process, seed: int) -> Point:
        """An open loop of as many requests as were asked for, or for as long."""
        options = self._options
        count = options.requests
        if options.seconds is not None:
            count = max(1, round(rate * options.seconds))
        offsets = constant(rate, count) if process == "constant" else poisson(rate, count, seed)
        planned = options.mix.planned(offsets, seed)
        return await self.replay(planned, f"{process}, {rate:.4g}/s", seed, rate=rate)

    async def replay(
        self, planned: Sequence[Planned], name: str, seed: int, *, rate: float | None = None
    ) -> Point:
        """Requests at the times that they have."""
        jobs = self._jobs(planned, str(seed))
        progress = self._start(name, len(jobs))

        async def load(watch: generator.Watch) -> list[Outcome]:
            offsets = [each.at for each in planned]
            send = self.where.client.complete
            return await open_loop(offsets, jobs, send, progress.watch, watch.late.append)

        last = planned[-1].at
        point = await self._measured(load, name, seed)
        return replace(
            point,
            rate=rate or (len(planned) / last if last else None),
            last_start=point.began + last,
        )

    async def with_users(self, users: int, seed: int) -> Point:
        """A closed loop of as many requests as were asked for, or for as long."""
        options = self._options
        name = f"{users} user{'s' if users > 1 else ''}"
        jobs: Iterable[Job]
        if options.seconds is None:
            jobs = self._jobs(options.mix.planned([0.0] * options.requests, seed), str(seed))
            progress = self._start(name, options.requests)
        else:
            jobs = _until(options.seconds, self._endless(options.mix.planned, f"{seed}"))
            progress = self._start(name, None)

        async def load(_: generator.Watch) -> list[Outcome]:
            return await closed_loop(users, jobs, self.where.client.complete, progress.watch)

        point = await self._measured(load, name, seed)
        progress.end()
        last = max((each.sent for each in point.outcomes), default=point.began)
        return replace(point, loop="closed", last_start=last)

    async def _measured(self, load: Load, name: str, seed: int) -> Point:
        """A load, watched from outside and by the server's own series."""
        options, client = self._options, self.where.client
        others = self._endless(
            lambda offsets, of: options.mix.others(len(offsets), of), f"{seed} beside"
        )
        before = await self._series()
        async with (
            always_in_flight(options.beside, others, client.complete) as beside,
            generator.watching() as watch,
        ):
            began = time.monotonic()
            outcomes = await load(watch)
            seen = watch.seen()
        grown = served.between(before, await self._series())
        return Point(
            name=name,
            loop="open",
            rate=None,
            seed=seed,
            began=began,
            last_start=began,
            outcomes=outcomes,
            beside=tuple(beside),
            generator=seen,
            agreements=served.agreements(grown, outcomes),
        )

    async def _series(self) -> served.Samples | None:
        url = self.where.server.metrics_url or f"{self.where.url}/metrics"
        return await scraping.read(self.where.http, url, self.where.model)

    def _warm_up_plan(self, count: int) -> list[Planned]:
        mix = self._options.mix
        planned = mix.planned([0.0] * count, _WARM_UP_SEED)
        both = mix.other_share or self._options.beside
        return planned + (mix.others(2, _WARM_UP_SEED) if both and count > 1 else [])

    def _endless(
        self, plan: Callable[[Sequence[float], int], list[Planned]], words: str
    ) -> Iterator[Job]:
        """Jobs one by one, each made when it is wanted."""
        for number in itertools.count():
            yield from self._jobs(plan([0.0], number), f"{words} {number}")

    def _jobs(self, planned: Sequence[Planned], words: str) -> list[Job]:
        """No words are sent twice: a prefix cache would know them."""
        try:
            return self._writer.jobs(planned, f"{self._options.words} {self._salt} {words}")
        except ValueError as error:
            raise CannotMeasure(f"{error}; ask for longer prompts with --input") from None


def _until(seconds: float, jobs: Iterator[Job]) -> Iterator[Job]:
    """Jobs as long as the time lasts, from the first on."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        yield next(jobs)


def _refused(outcome: Outcome, where: Target) -> str:
    """Why not even a first request succeeds, and what may help."""
    said = f": {outcome.detail}" if outcome.detail else ""
    text = f"{where.url} fails the first request for {where.model}: {outcome.failure}{said}"
    if "ignore_eos" in outcome.detail:
        return f"{text}; it does not know ignore_eos: add --stop-early"
    if outcome.failure == "http 404":
        return f"{text}; a server that only chats needs --endpoint chat"
    if outcome.failure == "timeout":
        return f"{text}; give it longer with --timeout"
    return text
