"""Does anything grow under a lasting load? Resident memory of router and worker, and step time.

A pool file is served by `splitpool up`. Long prompts fill the whole KV cache once, so that none of
it is new while memory is watched; a closed loop finds what the pool can do; 80 % of that is offered
for --minutes as Poisson arrivals, interactive and batch requests mixed. Memory is read every other
second from /proc, step times from the worker's step log: steps that only decode, each against the
usual step with as many sequences, since a step's time follows its size. What grows is told by the
last third of the time against the second (splitpool_bench/growth.py): memory fails beyond 2 %, step
time beyond 5 %, where the whole 95 % interval is growth.
"""

import argparse
import asyncio
import json
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

from splitpool_bench.arrivals import poisson
from splitpool_bench.chain import Chain, steps
from splitpool_bench.client import Client, session
from splitpool_bench.exchange import Job, Outcome
from splitpool_bench.growth import Growth, Sample, growth, like_for_like
from splitpool_bench.load import always_in_flight, closed_loop, open_loop
from splitpool_bench.progress import Progress
from splitpool_bench.prompts import Vocabulary, learn
from splitpool_bench.proxying.usage import resident
from splitpool_bench.report import Check, finish, machine, table
from splitpool_bench.script import arguments, one_chain
from splitpool_bench.workload import Workload

EXAMPLES = Path(__file__).parents[1] / "examples"
INTERACTIVE = Workload(latency_class="interactive", low=32, high=128, output=32)
BATCH = Workload(latency_class="batch", low=64, high=256, output=64)
SAMPLE_SECONDS = 2.0
FILLING = 1500  # tokens of a prompt that fills the cache
USERS = 24  # of the closed loop
MEMORY_LIMIT, STEP_LIMIT = 1.02, 1.05
_PROGRAMS = {"splitpool_router": "router", "splitpool_worker": "worker"}

Series = Mapping[str, Sequence[Sample]]


def mixed(vocabulary: Vocabulary, seed: int) -> Iterator[Job]:
    """Three interactive requests to one batch job."""
    interactive, batch = INTERACTIVE.jobs(vocabulary, seed), BATCH.jobs(vocabulary, seed + 1)
    while True:
        yield from islice(interactive, 3)
        yield next(batch)


def programs(chain: Chain) -> dict[int, str]:
    """Process ids of the router and the workers: children of `splitpool up`."""
    found: dict[int, str] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended meanwhile
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            said = (folder / "cmdline").read_bytes().decode().split("\0")
            if parent == chain.process.pid:
                role = next((role for name, role in _PROGRAMS.items() if name in said), None)
                if role is not None:
                    name = said[said.index("--name") + 1] if "--name" in said else role
                    found[int(folder.name)] = name
    return found


async def sample(pids: Mapping[int, str], found: dict[str, list[Sample]]) -> None:
    """Until cancelled."""
    while True:
        for pid, name in pids.items():
            found.setdefault(name, []).append((time.monotonic(), float(resident(pid))))
        await asyncio.sleep(SAMPLE_SECONDS)


def kv_tokens(chain: Chain) -> dict[str, int]:
    """By class: the tokens that all its workers hold."""
    held: dict[str, int] = {}
    for worker in chain.workers():
        with urllib.request.urlopen(f"{worker.url}/ready", timeout=5) as answer:
            for cls, load in json.load(answer)["load"].items():
                held[cls] = held.get(cls, 0) + int(load["kvTokens"])
    return held


async def fill(client: Client, chain: Chain, vocabulary: Vocabulary, seed: int) -> None:
    """Every block of the KV cache is written once."""
    for cls, tokens in kv_tokens(chain).items():
        long = Workload(latency_class=cls, low=FILLING, high=FILLING, output=1)
        count = tokens * 5 // (4 * FILLING) + 1
        progress = Progress(f"filling {cls}", count)
        outcomes = await closed_loop(
            4, islice(long.jobs(vocabulary, seed), count), client.complete, progress.watch
        )
        for each in outcomes:
            if each.failure is not None:
                raise RuntimeError(f"filling the cache of {cls}: {each.failure} {each.detail}")


async def capacity(client: Client, jobs: Iterator[Job], seconds: float) -> float:
    """Requests a second that a closed loop gets, its first quarter left out."""
    async with always_in_flight(USERS, jobs, client.complete) as finished:
        await asyncio.sleep(seconds / 4)
        before = len(finished)
        await asyncio.sleep(seconds * 3 / 4)
        answered = sum(each.failure is None for each in finished[before:])
        return answered / (seconds * 3 / 4)


async def offered(
    client: Client, jobs: Iterator[Job], rate: float, options: argparse.Namespace
) -> list[Outcome]:
    """Every answer of the lasting load."""
    count = max(1, int(rate * options.minutes * 60))
    progress = Progress(f"{rate:.2f} requests/s", count)
    return await open_loop(
        poisson(rate, count, options.seed), islice(jobs, count), client.complete, progress.watch
    )


def decode_steps(chain: Chain) -> list[Sample]:
    """Of steps without prefill: when, and seconds against the usual step of its size."""
    series: list[Sample] = []
    for worker in chain.workers():
        kinds: dict[int, list[Sample]] = {}
        for step in steps(chain, worker.name):
            classes = step["classes"].values()
            if not sum(each["prefill_tokens"] for each in classes):
                size = sum(each["decode_tokens"] + each["draft_tokens"] for each in classes)
                kinds.setdefault(size, []).append((step["started"], step["seconds"]))
        series += like_for_like(kinds)
    return series


async def measure(
    chain: Chain, options: argparse.Namespace
) -> tuple[dict[str, Growth], list[Outcome], dict[str, Any]]:
    memory: dict[str, list[Sample]] = {}
    pids = programs(chain)
    async with session() as connections:
        client = Client(connections, chain.url, chain.model)
        vocabulary = await learn(client.count_tokens)
        await fill(client, chain, vocabulary, options.seed)
        jobs = mixed(vocabulary, options.seed)
        most = await capacity(client, jobs, options.find)
        print(f"capacity {most:.2f} requests/s, offered {0.8 * most:.2f} for {options.minutes} min")
        sampling = asyncio.create_task(sample(pids, memory))
        began = time.monotonic()
        outcomes = await offered(client, jobs, 0.8 * most, options)
        ended = time.monotonic()
        sampling.cancel()
        with suppress(asyncio.CancelledError):
            await sampling  # a program that was restarted ends it with FileNotFoundError
    series = {f"{name} memory": values for name, values in memory.items()}
    series["decode step time"] = decode_steps(chain)
    found = {name: growth(values, began, ended) for name, values in series.items()}
    last = {name: values[-1][1] for name, values in memory.items()}
    return found, outcomes, {"capacity": most, "resident": last}


def checks(found: Mapping[str, Growth], outcomes: Sequence[Outcome]) -> list[Check]:
    """A growth that is no more than chance counts as none."""
    limits = {name: MEMORY_LIMIT if "memory" in name else STEP_LIMIT for name in found}
    failed = sum(each.failure is not None for each in outcomes)
    return [
        *(
            Check(
                name=f"{name}, last third / second",
                measured=each.ratio if each.beyond(limits[name]) else min(each.ratio, limits[name]),
                limit=limits[name],
            )
            for name, each in found.items()
        ),
        Check(name="failed requests", measured=failed, limit=0),
    ]


def parse() -> argparse.Namespace:
    parser = arguments(__doc__, EXAMPLES / "smollm2-shared.yaml")
    parser.add_argument("--minutes", type=float, default=30.0, help="how long the load lasts")
    parser.add_argument("--find", type=float, default=60.0, help="seconds that look for capacity")
    return parser.parse_args()


def main() -> int:
    options = parse()
    about = machine()
    with one_chain(options.file) as chain:
        found, outcomes, details = asyncio.run(measure(chain, options))
    rows = [
        (name, f"{each.ratio:.4f}", f"{each.low:.4f}..{each.high:.4f}")
        for name, each in found.items()
    ]
    print(f"\n{table(('last third / second third', 'ratio', '95 %'), rows)}")
    held = ", ".join(f"{name} {size / 1e6:.0f} MB" for name, size in details["resident"].items())
    print(f"\nresident at the end: {held}; {len(outcomes)} requests")
    return finish(checks=checks(found, outcomes), details=details, about=about, path=options.json)


if __name__ == "__main__":
    raise SystemExit(main())
