"""A node says no to a worker, or ends it: the pool says why, and what it says helps."""

from typing import Any

import pytest

from cluster.watched_pool import WatchedPool
from node.cluster import RealCluster
from node.pod_image import IMAGE
from node.serving import PATIENCE_SECONDS, declare, wait_ready


@pytest.fixture
def pool(real: RealCluster, release: str, namespace: str) -> WatchedPool:
    """A pool of the test's own."""
    return WatchedPool(real.admin, namespace)


def test_a_worker_over_its_memory_limit_is_killed_and_serves_once_it_has_more(
    pool: WatchedPool,
) -> None:
    # The weights alone take 260 MiB, the interpreter with torch as much.
    small = {
        "spec.model.maxModelLen": 256,
        "spec.pools.interactive.vram": "384Mi",
        "spec.pools.interactive.hostMemory": "16Mi",
    }
    declare(pool, small)

    pool.wait("Ready", "False", "OOMKilled", PATIENCE_SECONDS)
    assert "was killed at its memory limit; raise hostMemory" in pool.message("Ready")

    declare(pool, small | {"spec.pools.interactive.hostMemory": "768Mi"})
    wait_ready(pool)


@pytest.mark.parametrize(
    ("changes", "reason", "cause", "remedy"),
    [
        (
            {"spec.accelerator.memory": "64Ti", "spec.pools.interactive.vram": "32Ti"},
            "Unschedulable",
            "Insufficient memory",
            "add a node, or lower replicas, vram, hostMemory",
        ),
        (
            {"spec.podTemplate.image": "127.0.0.1:5000/splitpool/none:1"},
            "ImagePullFailed",
            "image 127.0.0.1:5000/splitpool/none:1 cannot be pulled",
            "correct the image",
        ),
        (
            {"spec.podTemplate.image": IMAGE},
            "ContainerCannotStart",
            '"python": executable file not found',
            "correct podTemplate",
        ),
    ],
    ids=["no-room", "no-image", "no-program"],
)
def test_a_worker_that_cannot_run_is_told_of(
    pool: WatchedPool, changes: dict[str, Any], reason: str, cause: str, remedy: str
) -> None:
    declare(pool, changes)

    pool.wait("Ready", "False", reason, PATIENCE_SECONDS)
    assert cause in pool.message("Ready")
    assert remedy in pool.message("Ready")
