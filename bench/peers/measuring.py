"""How is one server measured under one workload? With `splitpool bench`'s own parts."""

import asyncio
import time
from pathlib import Path
from typing import Any

from peers.servers import Server
from peers.versions import about
from peers.workloads import SERIAL, Workload, mix, planned
from splitpool_bench.measuring.options import ClosedLoop, Load, Options, Replay
from splitpool_bench.measuring.options import Server as Address
from splitpool_bench.measuring.session import measure
from splitpool_bench.progress import Progress
from splitpool_bench.reporting.document import document

TIMEOUT = 900.0


def measured(
    server: Server, url: str, workload: Workload, repeat: int, rate: float
) -> dict[str, Any]:
    """The measurement as a document. Raises CannotMeasure, KeyboardInterrupt."""
    options = Options(
        load=_load(workload, repeat, rate),
        mix=mix(workload),
        requests=SERIAL[workload].requests if workload in SERIAL else 0,
        seed=repeat,
        words=str(time.time_ns()),
        timeout=TIMEOUT,
    )

    def start(name: str, total: int | None) -> Progress:
        return Progress(f"{workload} {server.title}, repeat {repeat + 1}", total)

    result = asyncio.run(measure(options, [Address(url=url)], about(), start=start))
    if result.interrupted:
        raise KeyboardInterrupt
    found = document(result)
    found.pop("asked")
    return found | {"at": time.time(), "command": list(server.start.command)}


def _load(workload: Workload, repeat: int, rate: float) -> Load:
    if workload in SERIAL:
        return ClosedLoop(users=1)
    requests = planned(workload, repeat, rate)
    return Replay(file=Path(f"{workload}-{repeat}"), requests=tuple(requests))
