"""Is a Shared worker one engine with two pools? Through the router, in one run:

1. tokens per second of 64 concurrent batch requests against one alone (at least 4 x);
2. TTFT p99 of interactive requests while batch jobs always wait or run (at most 2.5 x alone);
3. the same with `--no-class-priority` (at least twice as high as with it).
"""

import argparse
import asyncio
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from splitpool_bench.arrivals import constant
from splitpool_bench.chain import Chain, running
from splitpool_bench.client import Client, session
from splitpool_bench.exchange import Job, Outcome
from splitpool_bench.load import always_in_flight, at_once, open_loop
from splitpool_bench.progress import Progress
from splitpool_bench.prompts import Vocabulary, learn
from splitpool_bench.report import Check, finish, machine, table
from splitpool_bench.script import arguments
from splitpool_bench.stats import bootstrap_interval, p99, quantile
from splitpool_bench.workload import Workload

SHORT_BATCH = Workload(latency_class="batch", low=32, high=128, output=64)
LONG_BATCH = Workload(latency_class="batch", low=1000, high=1000, output=256)
INTERACTIVE = Workload(latency_class="interactive", low=32, high=128, output=32)
EXAMPLE = Path(__file__).parents[1] / "examples" / "smollm2-shared.yaml"


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """One timed phase: what it is called and what became of its requests."""

    name: str
    seconds: float
    outcomes: Sequence[Outcome]

    @property
    def tokens_per_second(self) -> float:
        return sum(outcome.output_tokens for outcome in self.outcomes) / self.seconds

    @property
    def ttfts(self) -> list[float]:
        return [outcome.ttft for outcome in self.outcomes if outcome.ttft is not None]

    @property
    def failed(self) -> int:
        return sum(outcome.failure is not None for outcome in self.outcomes)

    @property
    def ttft_p99(self) -> float:
        return p99(self.ttfts)


class Measurement:
    """The phases of one chain, run one after the other."""

    def __init__(self, client: Client, vocabulary: Vocabulary, options: argparse.Namespace) -> None:
        self._client = client
        self._vocabulary = vocabulary
        self._options = options
        self._seed = options.seed

    async def warm_up(self) -> None:
        """Both classes run once at every size, so that the engine knows what a token costs."""
        for workload in (INTERACTIVE, SHORT_BATCH, LONG_BATCH):
            await at_once(islice(self._jobs(workload), 4), self._client.complete)

    async def one_alone(self) -> Phase:
        jobs = islice(self._jobs(SHORT_BATCH), self._options.alone)
        outcomes = [await self._client.complete(job) for job in jobs]
        busy = sum(outcome.e2e for outcome in outcomes)
        return Phase(name="1 batch request", seconds=busy, outcomes=outcomes)

    async def concurrent(self) -> Phase:
        width = self._options.concurrent
        progress = Progress(f"{width} batch requests", width)
        jobs = islice(self._jobs(SHORT_BATCH), width)
        outcomes = await at_once(jobs, self._client.complete, progress.watch)
        seconds = max(o.ended for o in outcomes) - min(o.sent for o in outcomes)
        return Phase(name=f"{width} batch requests", seconds=seconds, outcomes=outcomes)

    async def interactive(self, name: str) -> Phase:
        count, rate = self._options.requests, self._options.rate
        progress = Progress(name, count)
        jobs = islice(self._jobs(INTERACTIVE), count)
        outcomes = await open_loop(
            constant(rate, count), jobs, self._client.complete, progress.watch
        )
        seconds = max(o.ended for o in outcomes) - min(o.sent for o in outcomes)
        return Phase(name=name, seconds=seconds, outcomes=outcomes)

    async def interactive_beside_batch(self, name: str) -> Phase:
        jobs = self._jobs(LONG_BATCH)
        async with always_in_flight(self._options.jobs, jobs, self._client.complete) as finished:
            await asyncio.sleep(self._options.settle)
            phase = await self.interactive(name)
        failed = sum(outcome.failure is not None for outcome in finished)
        print(f"{name}: {len(finished)} batch jobs ended meanwhile, {failed} of them failed")
        return phase

    def _jobs(self, workload: Workload) -> Iterator[Job]:
        self._seed += 1
        return workload.jobs(self._vocabulary, self._seed)


async def measure(chain: Chain, options: argparse.Namespace, *, priority: bool) -> list[Phase]:
    """All phases that one way of running the worker needs."""
    async with session() as http:
        client = Client(http, chain.url, chain.model)
        run = Measurement(client, await learn(client.count_tokens), options)
        await run.warm_up()
        if not priority:
            return [await run.interactive_beside_batch("interactive + batch, no class priority")]
        return [
            await run.one_alone(),
            await run.concurrent(),
            await run.interactive("interactive"),
            await run.interactive_beside_batch("interactive + batch"),
        ]


def run_chain(options: argparse.Namespace, folder: Path, *, priority: bool) -> list[Phase]:
    flags = () if priority else ("--worker-flag=--no-class-priority",)
    name = "priority" if priority else "no-priority"
    print(f"starting {options.file.name} {' '.join(flags)}")
    with running(options.file, folder / name, flags=flags) as chain:
        return asyncio.run(measure(chain, options, priority=priority))


def checks(phases: Sequence[Phase]) -> list[Check]:
    one, many, alone, beside, unordered = phases
    return [
        Check(
            name="tokens/s, 64 concurrent / 1",
            measured=many.tokens_per_second / one.tokens_per_second,
            limit=4.0,
            at_least=True,
        ),
        Check(
            name="TTFT p99, with batch / without",
            measured=beside.ttft_p99 / alone.ttft_p99,
            limit=2.5,
        ),
        Check(
            name="TTFT p99, --no-class-priority / with priority",
            measured=unordered.ttft_p99 / beside.ttft_p99,
            limit=2.0,
            at_least=True,
        ),
        Check(name="failed requests", measured=sum(p.failed for p in phases), limit=0),
    ]


def rows(phases: Sequence[Phase]) -> list[tuple[str, ...]]:
    return [
        (
            phase.name,
            str(len(phase.outcomes)),
            f"{phase.tokens_per_second:.0f}",
            *(f"{quantile(phase.ttfts, q) * 1000:.0f}" for q in (0.5, 0.9, 0.99)),
            "{:.0f}..{:.0f}".format(*(v * 1000 for v in bootstrap_interval(phase.ttfts, p99))),
            f"{quantile([o.tpot for o in phase.outcomes if o.tpot], 0.5) * 1000:.1f}",
        )
        for phase in phases
    ]


HEADER = ("phase", "requests", "tokens/s", "TTFT p50 ms", "p90", "p99", "p99 95 %", "TPOT p50 ms")


def details(phases: Sequence[Phase]) -> dict[str, Any]:
    return {
        phase.name: {
            "tokens_per_second": phase.tokens_per_second,
            "ttft_seconds": phase.ttfts,
            "failed": phase.failed,
        }
        for phase in phases
    }


def parse() -> argparse.Namespace:
    parser = arguments(__doc__, EXAMPLE)
    parser.add_argument("--requests", type=int, default=200, help="interactive requests a phase")
    parser.add_argument("--rate", type=float, default=1.0, help="interactive requests a second")
    parser.add_argument("--jobs", type=int, default=32, help="batch jobs always in flight")
    parser.add_argument("--concurrent", type=int, default=64, help="batch requests at once")
    parser.add_argument("--alone", type=int, default=5, help="batch requests one after the other")
    parser.add_argument("--settle", type=float, default=5.0, help="seconds of batch load before")
    return parser.parse_args()


def main() -> int:
    options = parse()
    about = machine()
    with tempfile.TemporaryDirectory(prefix="splitpool-bench-") as folder:
        phases = run_chain(options, Path(folder), priority=True)
        phases += run_chain(options, Path(folder), priority=False)
    print(f"\n{table(HEADER, rows(phases))}")
    return finish(checks=checks(phases), details=details(phases), about=about, path=options.json)


if __name__ == "__main__":
    raise SystemExit(main())
