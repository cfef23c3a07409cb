"""A day of bursty traffic under the operator's control law and under the HPA's rule.

Pool, alert and rules run on a virtual clock: the pool is a model (one queue, equal workers, a start
of a minute), the control law is the operator's own code, and the alert has the chart's windows.
"""

import argparse
import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from splitpool_bench.report import table
from splitpool_bench.scaling.alert import Alert
from splitpool_bench.scaling.day import Traffic
from splitpool_bench.scaling.playing import Outcome, play
from splitpool_bench.scaling.policies import Fixed, Hpa, Law, Policy, by_load, by_ttft
from splitpool_bench.scaling.pool import Pool, Worker
from splitpool_operator.autoscaling.state import Limits, Pace

LIMITS = Limits(low=1, high=10)
TARGET_SECONDS = 0.5
QUEUE_SECONDS = 10.0
POLICIES: dict[str, Callable[[], Policy]] = {
    "ours (TTFT alert)": lambda: Law(LIMITS),
    "ours, alert over 1m for 30s": lambda: Law(
        LIMITS,
        pace=Pace(window=60),
        alert=Alert(window=60, pending_for=30, keep_firing_for=60),
    ),
    "HPA, 6 requests a worker": lambda: Hpa(LIMITS, by_load(6)),
    "HPA, 4 requests a worker": lambda: Hpa(LIMITS, by_load(4)),
    "HPA, TTFT p99 over target": lambda: Hpa(LIMITS, by_ttft()),
    "always 4": lambda: Fixed(4),
    "always 8": lambda: Fixed(8),
}


def day(make: Callable[[], Policy], seed: int, start: float) -> Outcome:
    """One day under one rule."""
    traffic = Traffic()
    worker = Worker(start=start)
    pool = Pool(
        worker, target=TARGET_SECONDS, timeout=QUEUE_SECONDS, seconds=traffic.seconds, seed=seed
    )
    return play(pool, make(), traffic.arrivals(seed), first=1)


def main() -> None:
    """Print a row a rule."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--start-seconds", type=float, default=60.0, help="of a worker (60)")
    parser.add_argument("--json", type=Path, help="write figures here as well")
    options = parser.parse_args()
    found = {
        name: day(make, options.seed, options.start_seconds) for name, make in POLICIES.items()
    }
    rows = [
        [
            name,
            f"{each.minutes_over:.1%}",
            f"{each.late:.1%}",
            f"{each.refused:.2%}",
            f"{each.replica_hours:.0f}",
            str(each.changes),
        ]
        for name, each in found.items()
    ]
    head = ["rule", "minutes over target", "late", "refused", "replica hours", "changes"]
    print(table(head, rows))
    if options.json:
        options.json.write_text(json.dumps({n: asdict(o) for n, o in found.items()}, indent=1))


if __name__ == "__main__":
    main()
