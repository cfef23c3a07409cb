"""The fence that workers see decides about a pool that demands one."""

import http.server
import json
import os
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from cluster.api import Api
from cluster.control_plane import ControlPlane
from cluster.fake_nodes import FakeNodes
from cluster.operators import operating
from cluster.watched_pool import WatchedPool
from splitpool_operator.rendering.container import PORT
from unit.pool_files import GPU

SHARED = {
    "spec.model.source": "oci://models/m:1",
    "spec.sharing.mode": "TimeSlicing",
    "spec.sharing.minimumEnforcement": "Driver",
}
WORKERS = 4


class Worker:
    """What all workers of a test say at /ready, at one address of the loopback network."""

    def __init__(self) -> None:
        self.address = f"127.{77 + os.getpid() % 100}.{os.getpid() // 100 % 250}.1"
        self.report: dict[str, Any] | None = None

    def says(self, fence: str, seen: str) -> None:
        """From now on."""
        self.report = {"enforcement": fence, "fence": {"limit": None, "seen": seen}, "vram": {}}


@pytest.fixture
def worker() -> Iterator[Worker]:
    said = Worker()

    class Answer(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if said.report else 500)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(json.dumps(said.report).encode())

        def log_message(self, format: str, *args: object) -> None:
            """Nothing: requests are not of interest."""

    with http.server.ThreadingHTTPServer((said.address, PORT), Answer) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield said
        server.shutdown()
        thread.join()


@pytest.fixture
def pool(
    control_plane: ControlPlane, admin: Api, namespace: str, nodes: FakeNodes, worker: Worker
) -> Iterator[WatchedPool]:
    """A pool that demands the driver's fence; its pods answer as the worker does."""
    nodes.add("gpus", {"nvidia.com/gpu.shared": "4"})
    nodes.lend(worker.address, WORKERS)
    with operating(control_plane, namespace, "fence-operator"):
        yield WatchedPool(admin, namespace)


def test_a_pool_whose_workers_see_too_weak_a_fence_is_stalled_until_less_is_demanded(
    pool: WatchedPool, worker: Worker
) -> None:
    worker.says("Cooperative", "the GPU has all of its bytes")
    pool.declare(SHARED, GPU)

    pool.wait("Stalled", "True", "EnforcementTooWeak")
    for words in ("Cooperative (the GPU has all of its bytes)", "minimumEnforcement is Driver"):
        assert words in pool.message("Stalled")
    assert pool.condition("QuotaEnforced") == ("False", "EnforcementTooWeak")
    assert pool.condition("Ready")[0] == "False"
    assert pool.read()["status"]["enforcement"] == "Cooperative"

    pool.patch({"spec": {"sharing": {"minimumEnforcement": "Cooperative"}}})

    pool.wait_ready()
    assert pool.condition("QuotaEnforced") == ("False", "CooperativeOnly")
    assert pool.condition("Stalled")[0] == "False"


def test_a_pool_that_demands_a_fence_is_ready_once_its_workers_have_seen_it(
    pool: WatchedPool, worker: Worker
) -> None:
    pool.declare(SHARED, GPU)
    pool.wait("Ready", "False", "NotReported")
    assert pool.condition("QuotaEnforced") == ("Unknown", "NotReported")

    worker.says("Driver", "NVIDIA_GPU_MEMORY_LIMIT")

    pool.wait_ready()
    assert pool.condition("QuotaEnforced") == ("True", "FenceSeen")
    assert "Driver (NVIDIA_GPU_MEMORY_LIMIT)" in pool.message("QuotaEnforced")
    assert pool.read()["status"]["enforcement"] == "Driver"
