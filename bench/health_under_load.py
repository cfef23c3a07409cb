"""Does `/health` answer within 100 ms while the chain is full? Asked from another process.

The load is open-loop interactive traffic beside batch requests that are always waiting or running.
"""

import argparse
import asyncio
import http.client
import time
from concurrent.futures import ProcessPoolExecutor
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from urllib.parse import urlsplit

from splitpool_bench.arrivals import poisson
from splitpool_bench.chain import Chain
from splitpool_bench.client import Client, session
from splitpool_bench.load import always_in_flight, open_loop
from splitpool_bench.prompts import learn
from splitpool_bench.report import Check, finish, machine, table
from splitpool_bench.script import arguments, one_chain
from splitpool_bench.stats import quantile
from splitpool_bench.workload import Workload

BATCH = Workload(latency_class="batch", low=1000, high=1000, output=128)
INTERACTIVE = Workload(latency_class="interactive", low=32, high=128, output=64)
EXAMPLES = Path(__file__).parents[1] / "examples"
PROBE_SECONDS = 0.05


def probe(url: str, seconds: float) -> list[float]:
    """Ask `/health` again and again, over a fresh connection each time, as a kubelet does."""
    host = urlsplit(url).netloc
    taken: list[float] = []
    end = time.monotonic() + seconds
    while (begin := time.monotonic()) < end:
        connection = http.client.HTTPConnection(host, timeout=10)
        connection.request("GET", "/health")
        status = connection.getresponse().status
        connection.close()
        if status != 200:
            raise RuntimeError(f"{url}/health answered {status}")
        taken.append(time.monotonic() - begin)
        time.sleep(PROBE_SECONDS)
    return taken


async def measure(chain: Chain, options: argparse.Namespace) -> dict[str, list[float]]:
    """Seconds of each answer, by the name of the program that was asked."""
    urls = {"router": chain.url} | {worker.name: worker.url for worker in chain.workers()}
    count = int(options.rate * options.seconds)
    async with session() as connections:
        client = Client(connections, chain.url, chain.model)
        vocabulary = await learn(client.count_tokens)
        batch = BATCH.jobs(vocabulary, options.seed)
        interactive = islice(INTERACTIVE.jobs(vocabulary, options.seed + 1), count)
        offsets = poisson(options.rate, count, options.seed)
        with ProcessPoolExecutor(len(urls), mp_context=get_context("spawn")) as processes:
            async with always_in_flight(options.jobs, batch, client.complete):
                await asyncio.sleep(options.settle)
                loop = asyncio.get_running_loop()
                probes = [
                    loop.run_in_executor(processes, probe, url, options.seconds)
                    for url in urls.values()
                ]
                load = asyncio.create_task(open_loop(offsets, interactive, client.complete))
                taken = await asyncio.gather(*probes)
                load.cancel()
                await asyncio.wait([load])
    return dict(zip(urls, taken, strict=True))


def parse() -> argparse.Namespace:
    parser = arguments(__doc__, EXAMPLES / "smollm2-shared.yaml")
    parser.add_argument("--seconds", type=float, default=40.0, help="how long to ask")
    parser.add_argument("--rate", type=float, default=3.0, help="interactive requests a second")
    parser.add_argument("--jobs", type=int, default=64, help="batch jobs always in flight")
    parser.add_argument("--settle", type=float, default=5.0, help="seconds of load before")
    return parser.parse_args()


def main() -> int:
    options = parse()
    about = machine()
    with one_chain(options.file) as chain:
        taken = asyncio.run(measure(chain, options))
    rows = [
        (name, len(v), *(f"{quantile(v, q) * 1000:.1f}" for q in (0.5, 0.99, 1.0)))
        for name, v in taken.items()
    ]
    print(table(("/health of", "answers", "p50 ms", "p99 ms", "max ms"), rows))
    checks = [
        Check(name=f"{name} /health max ms", measured=max(v) * 1000, limit=100.0)
        for name, v in taken.items()
    ]
    return finish(checks=checks, details={"seconds": taken}, about=about, path=options.json)


if __name__ == "__main__":
    raise SystemExit(main())
