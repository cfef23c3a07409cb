"""How does the operator bear many pools? Convergence, requests, memory, and writes when idle.

PYTHONPATH=tests python -m cluster.scale --pools 1000 --idle-minutes 10
"""

import argparse
import collections
import json
import os
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from cluster.api import Api, Object, eventually
from cluster.audit import Entry
from cluster.binaries import programs
from cluster.control_plane import ControlPlane, running
from cluster.crds import condition, install
from cluster.fake_nodes import KUBELET, FakeNodes, playing
from cluster.operators import operating
from unit.pool_files import CPU, changed

USER = "scale-operator"
_PODS_ON_A_NODE = 400
_CLIENTS = 4


def declare(api: Api, namespace: str, count: int) -> None:
    """Create so many pools."""
    with ThreadPoolExecutor(_CLIENTS) as pool:
        list(pool.map(lambda number: api.create(a_pool(namespace, number)), range(count)))


def a_pool(namespace: str, number: int) -> Object:
    """One of many pools; no two serve the same model."""
    name = f"pool-{number}"
    return changed(
        CPU,
        {
            "metadata": {"name": name, "namespace": namespace},
            "spec.model.name": f"{namespace}-{name}",
        },
    )


def add_nodes(nodes: FakeNodes, pools: int) -> None:
    """Room for both workers of every pool."""
    for number in range(-(-2 * pools // _PODS_ON_A_NODE)):
        nodes.add(f"node-{number}", {"memory": "4Ti", "cpu": "1000"})


def ready(api: Api, namespace: str) -> int:
    """How many pools are ready."""
    pools = api.listed("splitpool.dev/v1alpha1", "InferencePool", namespace)
    return sum(condition(each, "Ready") == "True" for each in pools)


def listings(entries: list[Entry]) -> int:
    """How often everything was listed."""
    return sum(each.resource == "inferencepools" and each.verb == "list" for each in entries)


def besides_the_lease(entries: list[Entry]) -> collections.Counter[str]:
    """Requests by verb and resource, without those for the Lease."""
    return collections.Counter(
        f"{each.verb} {each.resource}{'/' + each.subresource if each.subresource else ''}"
        for each in entries
        if each.resource != "leases"
    )


def measure(plane: ControlPlane, namespace: str, pools: int, idle: float) -> dict[str, Any]:
    """Numbers of a first convergence, of idle time and of a restart."""
    audit, api = plane.audit, plane.admin
    start, begun = audit.mark(), time.monotonic()
    patience = 60 + pools
    with operating(plane, namespace, USER, ["--sync-seconds", "120"]) as program:
        eventually(lambda: ready(api, namespace) == pools, "all pools are ready", patience)
        converged = time.monotonic() - begun
        first = besides_the_lease(audit.entries(start, user=USER))
        cpu = _cpu_seconds(program.pid)
        time.sleep(10)
        quiet = audit.mark()
        time.sleep(idle)
        writes = besides_the_lease(audit.writes(quiet, user=USER))
        memory = _memory(program.pid)
    again = audit.mark()
    with operating(plane, namespace, USER):
        eventually(lambda: listings(audit.entries(again, user=USER)) > 1, "it has listed", patience)
        time.sleep(30)
        restart = besides_the_lease(audit.writes(again, user=USER))
    return {
        "pools": pools,
        "convergenceSeconds": round(converged, 1),
        "cpuSecondsUntilThen": cpu,
        "requestsPerPool": round(sum(first.values()) / pools, 1),
        "requests": dict(first),
        "idleSeconds": idle,
        "idleWritesBesidesTheLease": dict(writes),
        "restartWritesBesidesTheLease": dict(restart),
        "residentMiB": memory,
    }


def _memory(pid: int) -> dict[str, float]:
    status = Path(f"/proc/{pid}/status").read_text()
    lines = dict(line.split(":", 1) for line in status.splitlines())
    return {key: round(int(lines[key].split()[0]) / 1024, 1) for key in ("VmRSS", "VmHWM")}


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return round((int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK"), 1)


def main() -> None:
    """Print the numbers as JSON."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--pools", type=int, default=1000)
    parser.add_argument("--idle-minutes", type=float, default=10)
    known = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as folder,
        running(programs(), Path(folder) / "plane") as plane,
        playing(plane.api(KUBELET, groups=["system:masters"])) as nodes,
    ):
        install(plane.admin)
        add_nodes(nodes, known.pools)
        declare(plane.admin, "default", known.pools)
        print(json.dumps(measure(plane, "default", known.pools, 60 * known.idle_minutes), indent=1))


if __name__ == "__main__":
    main()
