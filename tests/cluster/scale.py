"""How does the operator bear many pools? Convergence, requests, memory, and writes when idle.

PYTHONPATH=tests python -m cluster.scale --pools 1000 --idle-minutes 10
PYTHONPATH=tests python -m cluster.scale --pools 200 --idle-minutes 5 --managed

It says on stderr how far it is, and prints its numbers as JSON; the witness of all requests is the
API server's audit log. Managed pools are looked at every 15 s, with the signals of a calm day.
"""

import argparse
import collections
import contextlib
import json
import platform
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import MappingProxyType
from typing import Any

from cluster import usage
from cluster.api import Api, Object
from cluster.audit import Entry
from cluster.binaries import programs
from cluster.control_plane import ControlPlane, running
from cluster.crds import condition, install
from cluster.fake_nodes import KUBELET, FakeNodes, playing
from cluster.operators import operating
from cluster.processes import Program, free_ports
from fakes.fake_prometheus import FakePrometheus, prometheus
from splitpool_operator.autoscaling.state import Pace
from splitpool_operator.declaration.pool import CLASSES
from unit.pool_files import CPU, changed

USER = "scale-operator"
# One worker of each class whatever happens, so that looking at them never ends in a write.
MANAGED = {
    "spec.autoscaling": {
        "mode": "Managed",
        "interactive": {"minReplicas": 1, "maxReplicas": 2},
        "batch": {"minReplicas": 1, "maxReplicas": 1},
    }
}
_PODS_ON_A_NODE = 400
_CLIENTS = 4
# Asking is work for the API server too, which shares the machine with what is measured.
_LOOK_SECONDS = 3.0
_QUIET_SECONDS = 20.0
_STUCK_SECONDS = 300.0


class Stuck(Exception):
    """Nothing has moved for long, or the operator has ended."""


def declare(
    api: Api, namespace: str, count: int, changes: Mapping[str, Any] = MappingProxyType({})
) -> None:
    """Create so many pools, with changes by path."""
    pools = [a_pool(namespace, number, changes) for number in range(count)]
    with ThreadPoolExecutor(_CLIENTS) as threads:
        list(threads.map(api.create, pools))


def a_pool(namespace: str, number: int, changes: Mapping[str, Any]) -> Object:
    """One of many pools; no two serve the same model."""
    name = f"pool-{number}"
    own = {
        "metadata": {"name": name, "namespace": namespace},
        "spec.model.name": f"{namespace}-{name}",
    }
    return changed(CPU, {**changes, **own})


@contextlib.contextmanager
def calm(namespace: str, count: int, pace: Pace) -> Iterator[FakePrometheus]:
    """A Prometheus that knows so many pools, of which none has anything to do."""
    with prometheus(pace) as signals:
        for number in range(count):
            for name in CLASSES:
                signals.tell((namespace, f"pool-{number}", name))
        yield signals


def total(port: int, name: str) -> int:
    """The sum of a counter of the operator, whatever its labels."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    found = [each for each in lines if each.startswith((f"{name} ", f"{name}{{"))]
    return sum(int(float(each.rpartition(" ")[2])) for each in found)


def add_nodes(nodes: FakeNodes, pools: int) -> None:
    """Room for both workers of every pool."""
    for number in range(-(-2 * pools // _PODS_ON_A_NODE)):
        nodes.add(f"node-{number}", {"memory": "4Ti", "cpu": "1000"})


def ready(api: Api, namespace: str, kind: str = "Ready") -> int:
    """How many pools are ready, or have another condition."""
    pools = api.listed("splitpool.dev/v1alpha1", "InferencePool", namespace, resourceVersion="0")
    return sum(condition(each, kind) == "True" for each in pools)


def made(api: Api, namespace: str) -> int:
    """How many Deployments and pods there are, without listing them."""
    total = 0
    for version, kind in (("apps/v1", "Deployment"), ("v1", "Pod")):
        page = api.request("GET", api.resource(version, kind).path(namespace), query={"limit": "1"})
        total += len(page["items"]) + page["metadata"].get("remainingItemCount", 0)
    return total


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


class Measurement:
    """One control plane with many pools, and an operator that finds them."""

    def __init__(
        self, plane: ControlPlane, namespace: str, pools: int, signals: FakePrometheus | None
    ) -> None:
        self._plane = plane
        self._signals = signals
        self._namespace = namespace
        self._pools = pools
        self._begun = time.monotonic()
        self._port = free_ports(1)[0]

    def run(self, idle: float) -> dict[str, Any]:
        """Numbers of a first convergence, of idle time and of a restart. Raises Stuck."""
        flags = ["--sync-seconds", "60", "--health-port", str(self._port)]
        if self._signals is not None:
            flags += ["--prometheus-url", self._signals.url]
        with operating(self._plane, self._namespace, USER, flags) as program:
            first = self._converge(program)
            settling = self._settle(program)
            resting = self._rest(program, idle)
        with operating(self._plane, self._namespace, USER, flags) as program:
            again = self._settle(program)
            memory = usage.memory(program.pid)
        return {
            "machine": usage.machine(),
            "python": platform.python_version(),
            "pools": self._pools,
            "managed": self._signals is not None,
            "firstConvergence": first,
            "untilQuiet": settling,
            "idle": resting,
            "afterARestart": again | {"memoryMiB": memory},
        }

    def _converge(self, program: Program) -> dict[str, Any]:
        mark, before = self._plane.audit.mark(), self._cpu(program)
        begun, samples = time.monotonic(), []
        admin, namespace = self._plane.admin, self._namespace
        for count, others in _moving(lambda: (ready(admin, namespace), made(admin, namespace))):
            what = f"{count} of {self._pools} pools are ready, {others} Deployments and pods there"
            samples.append(self._sample(program, what))
            if count == self._pools:
                break
        seconds = time.monotonic() - begun
        requests = besides_the_lease(self._plane.audit.entries(mark, user=USER))
        reconciles = self._reconciles()
        return {
            "seconds": round(seconds, 1),
            "poolsPerSecond": round(self._pools / seconds, 2),
            "requestsPerPool": round(requests.total() / self._pools, 1),
            "reconcilesPerPool": round(reconciles / self._pools, 1),
            "requestsPerReconcile": round(requests.total() / reconciles, 2),
            "requests": dict(requests.most_common()),
            "cpuSeconds": _difference(self._cpu(program), before),
            "memoryMiB": samples,
        }

    def _settle(self, program: Program) -> dict[str, Any]:
        """Until everything was listed, and no write has come for a while after that."""
        mark, begun = self._plane.audit.mark(), time.monotonic()
        writes, since, listed = 0, time.monotonic(), False
        while not listed or time.monotonic() - since < _QUIET_SECONDS:
            time.sleep(_LOOK_SECONDS)
            seen = self._plane.audit.entries(mark, user=USER)
            listed = listings(seen) > 0 or time.monotonic() - begun > _STUCK_SECONDS
            count = besides_the_lease([each for each in seen if each.is_write]).total()
            if count != writes or not listed:
                writes, since = count, time.monotonic()
        self._say(f"quiet after {writes} more writes")
        made = besides_the_lease(self._plane.audit.writes(mark, user=USER))
        return {"seconds": round(since - begun, 1), "writesBesidesTheLease": dict(made)}

    def _rest(self, program: Program, seconds: float) -> dict[str, Any]:
        mark, before = self._plane.audit.mark(), self._cpu(program)
        reconciles, readings = self._reconciles(), self._readings()
        end, samples = time.monotonic() + seconds, []
        while (left := end - time.monotonic()) > 0:
            samples.append(self._sample(program, f"idle for {left:.0f} s more"))
            time.sleep(min(30.0, left))
        entries = self._plane.audit.entries(mark, user=USER)
        writes = [each for each in entries if each.is_write]
        return {
            "seconds": seconds,
            "writesBesidesTheLease": dict(besides_the_lease(writes)),
            "leaseWrites": sum(each.resource == "leases" for each in writes),
            "reads": dict(besides_the_lease([each for each in entries if not each.is_write])),
            "reconciles": self._reconciles() - reconciles,
            "readingsOfPrometheus": self._readings() - readings,
            "cpuSeconds": _difference(self._cpu(program), before),
            "memoryMiB": samples,
        }

    def _sample(self, program: Program, what: str) -> dict[str, float]:
        if not program.running:
            raise Stuck(f"the operator has ended: {program.last_words()}")
        memory = usage.memory(program.pid)
        self._say(f"{what}; operator {memory['VmRSS']} MiB")
        return {"at": round(time.monotonic() - self._begun, 1), **memory}

    def _cpu(self, program: Program) -> dict[str, float]:
        """CPU seconds so far of whoever shares the machine."""
        parts = {"operator": program.pid} | {
            name: each.pid
            for name, each in (
                ("etcd", self._plane.etcd),
                ("apiServer", self._plane.api_server),
                ("controllers", self._plane.controllers),
                ("scheduler", self._plane.scheduler),
            )
        }
        return {name: usage.cpu_seconds(pid) for name, pid in parts.items()} | {
            "fakeNodesAndThis": round(time.process_time(), 1)
        }

    def _reconciles(self) -> int:
        """How often the operator has looked at a pool, by its own count."""
        return total(self._port, "splitpool_operator_reconcile_total")

    def _readings(self) -> int:
        """How often it has asked Prometheus everything."""
        return total(self._port, "splitpool_operator_signal_reads_total")

    def _say(self, what: str) -> None:
        print(f"{time.monotonic() - self._begun:6.0f} s: {what}", file=sys.stderr, flush=True)


def _moving(look: Callable[[], tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """What there is, again and again. Raises Stuck where it stays the same for long."""
    last, since = (-1, -1), time.monotonic()
    while True:
        now = look()
        if now != last:
            last, since = now, time.monotonic()
        if time.monotonic() - since > _STUCK_SECONDS:
            raise Stuck(f"{now} for {_STUCK_SECONDS:.0f} s")
        yield now
        time.sleep(_LOOK_SECONDS)


def _difference(after: Mapping[str, float], before: Mapping[str, float]) -> dict[str, float]:
    return {name: round(value - before[name], 1) for name, value in after.items()}


def main() -> None:
    """Print the numbers as JSON."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--pools", type=int, default=1000)
    parser.add_argument("--idle-minutes", type=float, default=10)
    parser.add_argument("--managed", action="store_true", help="with autoscaling")
    known = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as folder,
        running(programs(sys.stderr), Path(folder) / "plane") as plane,
        playing(plane.api(KUBELET, groups=["system:masters"])) as nodes,
        calm("default", known.pools, Pace()) as signals,
    ):
        install(plane.admin)
        add_nodes(nodes, known.pools)
        declare(plane.admin, "default", known.pools, MANAGED if known.managed else {})
        asked = signals if known.managed else None
        measurement = Measurement(plane, "default", known.pools, asked)
        found = measurement.run(60 * known.idle_minutes)
        print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
