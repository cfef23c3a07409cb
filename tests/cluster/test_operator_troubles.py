"""Real controllers and the real scheduler say no: the pool says why, and what would help."""

from collections.abc import Iterator
from typing import Any

import pytest

from cluster.api import Api, Object, eventually
from cluster.control_plane import ControlPlane
from cluster.fake_nodes import FakeNodes
from cluster.operators import operating
from cluster.watched_pool import WatchedPool
from unit.pool_files import GPU

USER = "troubled-operator"


@pytest.fixture
def pool(control_plane: ControlPlane, admin: Api, namespace: str) -> Iterator[WatchedPool]:
    with operating(control_plane, namespace, USER):
        yield WatchedPool(admin, namespace)


def test_a_model_in_a_claim_that_does_not_exist_waits_for_it(
    admin: Api, nodes: FakeNodes, pool: WatchedPool
) -> None:
    nodes.add("plain")
    pool.declare({"spec.model.source": "pvc://models/smollm2"})
    pool.wait("Ready", "False", "ModelNotFound")
    assert "the claim models of pvc://models/smollm2 does not exist" in pool.message("Ready")
    assert pool.condition("Reconciling")[0] == "True"

    volume = f"models-{pool.namespace}"
    made = admin.create(_volume(volume))
    try:
        admin.create(_claim("models", pool.namespace, volume))
        pool.wait("Ready", "True", "Serving", seconds=60)
    finally:
        admin.delete(made)


@pytest.mark.parametrize(
    ("capacity", "changes", "cause", "remedy"),
    [
        ({"memory": "1Gi"}, {}, "Insufficient memory", "add a node, or lower replicas"),
        (
            {},
            {"spec.podTemplate": {"nodeSelector": {"disk": "ssd"}}},
            "node affinity/selector",
            "correct podTemplate.nodeSelector",
        ),
    ],
    ids=["memory", "selector"],
)
def test_a_pool_without_a_node_says_what_would_help(
    nodes: FakeNodes,
    pool: WatchedPool,
    capacity: dict[str, str],
    changes: dict[str, Any],
    cause: str,
    remedy: str,
) -> None:
    nodes.add("unfit", capacity)
    pool.declare(changes)
    pool.wait("Ready", "False", "Unschedulable")
    pool.wait_message("Ready", cause)
    pool.wait_message("Ready", remedy)

    nodes.add("fit", labels={"disk": "ssd"})
    pool.wait("Ready", "True", "Serving", seconds=60)


def test_a_gpu_pool_without_the_drivers_device_class_says_so(
    nodes: FakeNodes, pool: WatchedPool
) -> None:
    nodes.add("plain")
    pool.declare({"spec.model.source": "oci://models/m:1"}, GPU)
    pool.wait("Ready", "False", "WaitingForGPU")
    pool.wait_message("Ready", "install the DRA driver")


def test_pods_that_a_quota_refuses_are_told_of(
    admin: Api, nodes: FakeNodes, pool: WatchedPool
) -> None:
    nodes.add("plain")
    quota = admin.create(_quota(pool.namespace))
    eventually(lambda: admin.reread(quota).get("status", {}).get("hard"), "the quota holds")
    pool.declare()
    pool.wait("Ready", "False", "PodsRefused")
    assert "exceeded quota: none" in pool.message("Ready")

    admin.delete(quota)
    pool.wait("Ready", "True", "Serving", seconds=60)


def _volume(name: str) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadOnlyMany"],
            "storageClassName": "",
            "hostPath": {"path": "/models"},
        },
    }


def _claim(name: str, namespace: str, volume: str) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "accessModes": ["ReadOnlyMany"],
            "storageClassName": "",
            "volumeName": volume,
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }


def _quota(namespace: str) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "none", "namespace": namespace},
        "spec": {"hard": {"pods": "0"}},
    }
