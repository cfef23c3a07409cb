"""What is noticed when a worker's pod is killed with grace 0? `python -m node.losing`.

It starts a real node with two workers of SmolLM2, opens long streams, lets callers ask one short
question after another through the router's Service, and kills one worker's pod. Measured are how
soon the dead worker's streams end with the error event, and whether a call on the other worker
fails or takes longer than twice the p99 from before. Other programs of the machine show in the
numbers. Root and Linux are needed. Exit status 1 where a figure is over its bar.
"""

import argparse
import dataclasses
import math
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from cluster.watched_pool import WatchedPool
from node.calling import Call
from node.cluster import RealCluster, prepare, running
from node.release import install, service_url
from node.serving import declare, running_pods, wait_ready
from node.streaming import DONE, Asked, Told
from node.streams import calling, streaming
from splitpool_bench.report import Check, finish, machine
from splitpool_bench.stats import p99

WORKERS = {"spec.pools.interactive.replicas": 2, "spec.pools.interactive.maxBatch": 20}
_LONG_STREAMS = 6
_LONG_TOKENS = 1900
_QUESTION_TOKENS = 8
# A pod that is to be gone at once gets seconds all the same, and then its callers go elsewhere.
_AFTERMATH_SECONDS = 10.0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """All streams and calls around the kill, and when that was by the system's clock."""

    killed: float
    streams: Sequence[Told]
    calls: Sequence[Call]


def watch(real: RealCluster, pool: WatchedPool, count: int, seconds: float) -> Seen:
    """Kill one of the pool's two workers after so many seconds of calls by `count` callers."""
    model = pool.read()["spec"]["model"]["name"]
    long = Asked(url=service_url(real), model=model, streams=_LONG_STREAMS, tokens=_LONG_TOKENS)
    short = dataclasses.replace(long, streams=count, tokens=_QUESTION_TOKENS)
    with streaming(real, long) as streams, calling(real, short) as callers:
        time.sleep(seconds)
        killed = time.time()
        real.admin.delete(running_pods(pool)[0], grace_seconds=0)
        time.sleep(_AFTERMATH_SECONDS)
        calls = callers.stop()
        return Seen(killed=killed, streams=streams.told(), calls=calls)


def checks(seen: Seen) -> list[Check]:
    """The figures and their bars."""
    lost = [each for each in seen.streams if each.end != DONE]
    dead = {each.worker for each in lost}
    before = [each.seconds for each in seen.calls if each.ended < seen.killed]
    others = [each for each in seen.calls if each.ended >= seen.killed and each.worker not in dead]
    failed = sum(each.end != DONE for each in others)
    slowest = max((each.seconds for each in others), default=0.0)
    return [
        Check(name="streams that were lost", measured=len(lost), limit=1, at_least=True),
        Check(
            name="their ends that are not worker_lost",
            measured=sum(each.end != "worker_lost" for each in lost),
            limit=0,
        ),
        Check(
            name="last token to error event, s",
            measured=max(each.silence for each in lost),
            limit=2,
        ),
        Check(name="calls before", measured=len(before), limit=100, at_least=True),
        Check(name="calls on others that failed", measured=failed, limit=0),
        Check(name="slowest call on others / p99 before", measured=slowest / p99(before), limit=2),
    ]


def details(seen: Seen) -> dict[str, float]:
    """What the figures are made of, in seconds."""
    lost = [each for each in seen.streams if each.end != DONE]
    before = [each.seconds for each in seen.calls if each.ended < seen.killed]
    return {
        "p99_before": p99(before),
        "deletion_to_error_event": max((each.ended for each in lost), default=math.nan)
        - seen.killed,
    }


def main(out: IO[str] = sys.stderr) -> int:
    """The exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--callers", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=30, help="of calls before the kill")
    parser.add_argument("--json", type=Path, help="write figures here as well")
    known = parser.parse_args()
    prepare(out)
    about = machine()
    with running(out) as real:
        install(real, real.images)
        pool = WatchedPool(real.admin, "default")
        declare(pool, WORKERS)
        wait_ready(pool)
        seen = watch(real, pool, known.callers, known.seconds)
    figures = details(seen)
    print(", ".join(f"{name} {value:.3g} s" for name, value in figures.items()))
    return finish(checks=checks(seen), details=figures, about=about, path=known.json)


if __name__ == "__main__":
    sys.exit(main())
