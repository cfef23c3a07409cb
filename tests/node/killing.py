"""Ends what runs in a container at once, as a crash does: the program is told nothing."""

import os
import signal
from collections.abc import Iterator

from cluster.api import Object
from node import keeper
from node.cluster import RealCluster


def kill(real: RealCluster, pod: Object) -> None:
    """SIGKILL for every process of the pod's one container, which the kubelet starts again."""
    processes = set(_processes(real, pod))
    assert processes, f"nothing runs in {pod['metadata']['name']}"
    for process in processes:
        os.kill(process, signal.SIGKILL)


def _processes(real: RealCluster, pod: Object) -> Iterator[int]:
    """Their ids on this machine: the container's cgroup is named by the container."""
    (status,) = pod["status"]["containerStatuses"]
    container = status["containerID"].rpartition("/")[2]
    for top in keeper.cgroups(real.box.folder.name):
        for file in top.rglob(f"{container}/cgroup.procs"):
            yield from map(int, file.read_text().split())
