"""The real scheduler places what the sharing modes emit: what fits runs, what does not waits."""

from collections.abc import Iterator
from typing import Any

import pytest

from cluster.api import Api, eventually
from cluster.control_plane import ControlPlane
from cluster.fake_nodes import FakeNodes
from cluster.nodes import gpu_device
from cluster.operators import operating
from cluster.watched_pool import WatchedPool
from splitpool_quantity.quantity import to_bytes
from unit.pool_files import GPU, MIG

GIB = 1024**3
IMAGE = {"spec.model.source": "oci://models/m:1"}
QUOTAS = {"interactive": 7, "batch": 11}
EXCLUSIVE: dict[str, Any] = {
    "spec.sharing.mode": "Exclusive",
    "spec.pools.interactive.replicas": 1,
    "spec.pools.batch.replicas": 1,
}


@pytest.fixture
def pool(control_plane: ControlPlane, admin: Api, namespace: str) -> Iterator[WatchedPool]:
    with operating(control_plane, namespace, "gpu-operator"):
        yield WatchedPool(admin, namespace)


@pytest.mark.parametrize(
    ("mode", "enough", "short"),
    [
        (EXCLUSIVE, {"nvidia.com/gpu": "2"}, {"nvidia.com/gpu": "1"}),
        (
            {**MIG, "spec.accelerator.count": 2},
            {"nvidia.com/mig-3g.40gb": "2", "nvidia.com/mig-4g.40gb": "2"},
            {"nvidia.com/mig-3g.40gb": "2", "nvidia.com/mig-4g.40gb": "1"},
        ),
        (
            {"spec.sharing.mode": "TimeSlicing"},
            {"nvidia.com/gpu.shared": "4"},
            {"nvidia.com/gpu.shared": "3"},
        ),
    ],
    ids=["Exclusive", "MIG", "TimeSlicing"],
)
def test_a_pool_waits_until_its_resources_are_there(
    nodes: FakeNodes,
    pool: WatchedPool,
    mode: dict[str, Any],
    enough: dict[str, str],
    short: dict[str, str],
) -> None:
    nodes.add("short", short)
    pool.declare(IMAGE | mode, GPU)
    pool.wait("Ready", "False", "WaitingForGPU")
    nodes.add("enough", enough)
    pool.wait_ready()


def test_the_headroom_survives_whatever_mix_the_scheduler_makes(
    nodes: FakeNodes, pool: WatchedPool
) -> None:
    nodes.add("gpu-0", devices=[gpu_device("gpu-0", "80Gi")])
    declared = {
        f"spec.pools.{name}": {"vram": f"{quota}Gi", "replicas": 8}
        for name, quota in QUOTAS.items()
    }
    pool.declare(IMAGE | declared, GPU)

    def judged() -> list[bool]:
        """Of every pod, whether it was placed, once the scheduler has an answer for all."""
        conditions = [each["status"].get("conditions") or [] for each in pool.pods()]
        placed = [
            next((c["status"] == "True" for c in each if c["type"] == "PodScheduled"), None)
            for each in conditions
        ]
        return [] if None in placed or len(placed) < 16 else [bool(each) for each in placed]

    eventually(lambda: False in judged(), "some pods have no room")
    placed = [each for each in pool.pods() if each["spec"].get("nodeName")]
    used = sum(QUOTAS[each["metadata"]["labels"]["splitpool.dev/class"]] * GIB for each in placed)
    assert 0 < used <= to_bytes("80Gi") - to_bytes("4Gi")
    pool.wait("Ready", "False", "WaitingForGPU")


def test_a_pool_that_fits_in_some_orders_only_says_so_when_it_is_stuck(
    nodes: FakeNodes, pool: WatchedPool
) -> None:
    nodes.add("gpu-0", devices=[gpu_device("gpu-0", "80Gi")])
    pool.declare(IMAGE | {"spec.pools.batch.replicas": 0}, GPU)
    pool.wait_ready()
    nodes.add("gpu-1", devices=[gpu_device("gpu-1", "80Gi")])

    pool.patch({"spec": {"pools": {"batch": {"replicas": 2}}}})

    pool.wait("Ready", "False", "WaitingForGPU")
    pool.wait_message("Ready", "not in every order")


def test_a_change_that_does_not_fit_is_refused_and_the_old_workers_go_on(
    nodes: FakeNodes, pool: WatchedPool
) -> None:
    nodes.add("gpus", devices=[gpu_device("gpu-0", "80Gi"), gpu_device("gpu-1", "80Gi")])
    one_each = {"spec.pools.interactive.vram": "40Gi", "spec.pools.batch.vram": "8Gi"}
    pool.declare(IMAGE | one_each, GPU)
    pool.wait_ready()

    pool.patch({"spec": {"pools": {"interactive": {"replicas": 3}}}})

    pool.wait("Stalled", "True", "DoesNotFit")
    assert "at most 2 interactive fit at all" in pool.message("Stalled")
    assert pool.condition("InteractiveAvailable") == ("True", "Available")
    assert pool.read()["status"]["pools"]["interactive"]["summary"] == "2/2"
