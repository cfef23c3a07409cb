"""What does a forwarded token cost our router, and what does it hold with 1,000 streams open?

Against a bare aiohttp pass-through, and vllm-router and smg where they are installed, in front of
one worker that sends tokens at a set pace; alternating, in one run. CPU time is that of the whole
process, memory what is resident. Each round: short requests (CPU per request), then all streams
are opened and CPU and tokens are counted while they run. The bars: at most 1.1 x the bare one's
CPU time a token, and 30 MB more than it holds.

The others are looked for in virtual environments of their own: `python -m venv DIR/vllm-router;
DIR/vllm-router/bin/pip install vllm-router`, and the same with smg, where DIR is --others.
"""

import argparse
import asyncio
import resource
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

from splitpool_bench.proxying.contenders import BARE, OURS, Proxy, proxies, running, upstream
from splitpool_bench.proxying.reader import Streams, short_requests
from splitpool_bench.proxying.usage import usage
from splitpool_bench.report import Check, finish, machine, table

OTHERS = Path.home() / ".cache" / "splitpool" / "routers"
MB = 1_000_000
USERS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """One round of one proxy: microseconds of CPU time, and bytes."""

    us_per_request: float
    us_per_token: float
    tokens_per_second: float
    resident: int
    lost: int


async def measure(proxy: Proxy, options: argparse.Namespace) -> Round:
    before = usage(proxy.pid).cpu_seconds
    await short_requests(proxy.url, USERS, options.requests)
    requests = usage(proxy.pid).cpu_seconds - before
    streams = Streams(proxy.url, options.streams)
    await streams.open()
    await asyncio.sleep(options.settle)
    start, tokens, began = usage(proxy.pid), streams.tokens, time.monotonic()
    await asyncio.sleep(options.seconds)
    end, tokens, took = usage(proxy.pid), streams.tokens - tokens, time.monotonic() - began
    lost = streams.lost
    streams.close()
    return Round(
        us_per_request=requests / options.requests * 1e6,
        us_per_token=(end.cpu_seconds - start.cpu_seconds) / tokens * 1e6,
        tokens_per_second=tokens / took,
        resident=end.resident,
        lost=lost,
    )


def measure_all(options: argparse.Namespace) -> dict[str, list[Round]]:
    with (
        tempfile.TemporaryDirectory(prefix="splitpool-bench-") as name,
        upstream(Path(name), pace=options.pace, group=options.group) as worker,
        proxies(worker, Path(name), options.others) as found,
    ):
        rounds: dict[str, list[Round]] = {proxy.name: [] for proxy in found}
        for number in range(options.rounds):
            # Every other round backwards, so that a drift of the machine meets both sides.
            for proxy in found if number % 2 == 0 else reversed(found):
                taken = asyncio.run(measure(proxy, options))
                print(f"round {number + 1}, {proxy.name}: {taken.us_per_token:.1f} us a token")
                rounds[proxy.name].append(taken)
                while running(worker):
                    time.sleep(0.1)
    return rounds


HEADER = ("", "us CPU a token", "of each round", "/ bare", "us a request", "MB", "tokens/s")


def rows(rounds: Mapping[str, Sequence[Round]]) -> list[tuple[str, ...]]:
    return [
        (
            name,
            f"{median(each.us_per_token for each in taken):.1f}",
            " ".join(f"{each.us_per_token:.1f}" for each in taken),
            f"{ratio(rounds, name):.2f}",
            f"{median(each.us_per_request for each in taken):.0f}",
            f"{max(each.resident for each in taken) / MB:.0f}",
            f"{median(each.tokens_per_second for each in taken):.0f}",
        )
        for name, taken in rounds.items()
    ]


def ratio(rounds: Mapping[str, Sequence[Round]], name: str) -> float:
    """Against the bare one in the same round, the median of all rounds."""
    pairs = zip(rounds[name], rounds[BARE], strict=True)
    return median(each.us_per_token / bare.us_per_token for each, bare in pairs)


def checks(rounds: Mapping[str, Sequence[Round]]) -> list[Check]:
    held = {name: max(each.resident for each in taken) for name, taken in rounds.items()}
    return [
        Check(name="CPU a token / bare aiohttp", measured=ratio(rounds, OURS), limit=1.1),
        Check(name="MB more than bare aiohttp", measured=(held[OURS] - held[BARE]) / MB, limit=30),
        Check(name="streams lost", measured=sum(each.lost for each in rounds[OURS]), limit=0),
    ]


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--streams", type=int, default=1000, help="open at the same time")
    parser.add_argument("--pace", type=float, default=10.0, help="tokens a second of a stream")
    parser.add_argument("--group", type=int, default=64, help="streams that get a token together")
    parser.add_argument("--seconds", type=float, default=8.0, help="counted in each round")
    parser.add_argument("--settle", type=float, default=1.0, help="seconds before that")
    parser.add_argument("--requests", type=int, default=800, help="short requests a round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--others", type=Path, default=OTHERS, help="environments of the others")
    parser.add_argument("--json", type=Path, help="write figures here as well")
    return parser.parse_args()


def main() -> int:
    options = parse()
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    about = machine()
    rounds = measure_all(options)
    print(f"\n{table(HEADER, rows(rounds))}")
    details = {name: [asdict(each) for each in taken] for name, taken in rounds.items()}
    return finish(checks=checks(rounds), details=details, about=about, path=options.json)


if __name__ == "__main__":
    raise SystemExit(main())
