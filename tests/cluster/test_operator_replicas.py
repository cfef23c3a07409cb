"""Operators come and go: one acts at a time, and whatever was interrupted is finished."""

import random
import time
from pathlib import Path

import pytest

from cluster.api import Api, eventually
from cluster.audit import AuditLog
from cluster.control_plane import ControlPlane
from cluster.fake_nodes import FakeNodes
from cluster.operators import leader, operating, operator, permit
from cluster.rendered import assert_live, rendered
from cluster.watched_pool import WatchedPool

ONE, OTHER = "operator-one", "operator-other"
KILLS = 5


def acts(audit: AuditLog, since: int, user: str) -> bool:
    """Whether it wrote anything but leases."""
    return any(each.resource != "leases" for each in audit.writes(since, user=user))


def test_of_two_replicas_one_acts_and_the_other_takes_over(
    control_plane: ControlPlane, admin: Api, audit: AuditLog, nodes: FakeNodes, namespace: str
) -> None:
    nodes.add("plain")
    pool, start = WatchedPool(admin, namespace), audit.mark()
    with operating(control_plane, namespace, ONE) as first:
        eventually(lambda: leader(admin, namespace) == ONE, "the first leads")
        with operating(control_plane, namespace, OTHER):
            pool.declare()
            pool.wait_ready()
            assert acts(audit, start, ONE)
            assert not acts(audit, start, OTHER)

            first.kill()
            begun = time.monotonic()
            eventually(lambda: leader(admin, namespace) == OTHER, "the other leads", seconds=60)
            print(f"{time.monotonic() - begun:.1f} s from the kill until the other leads")
            killed = audit.mark()
            pool.patch({"spec": {"pools": {"batch": {"maxBatch": 65}}}})
            pool.wait_ready()
            assert acts(audit, killed, OTHER)
            assert not acts(audit, killed, ONE)


def test_a_replica_that_is_stopped_hands_over_at_once(
    control_plane: ControlPlane, admin: Api, namespace: str
) -> None:
    with operating(control_plane, namespace, ONE) as first:
        eventually(lambda: leader(admin, namespace) == ONE, "the first leads")
        with operating(control_plane, namespace, OTHER):
            first.stop()
            assert leader(admin, namespace) != ONE
            eventually(lambda: leader(admin, namespace) == OTHER, "the other leads", seconds=10)


def test_one_that_loses_the_lease_ends(
    control_plane: ControlPlane, admin: Api, namespace: str
) -> None:
    with operating(control_plane, namespace, ONE) as first:
        eventually(lambda: leader(admin, namespace) == ONE, "the first leads")
        (lease,) = admin.listed("coordination.k8s.io/v1", "Lease", namespace)
        lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", **lease}
        admin.patch(lease, {"spec": {"holderIdentity": "a stranger"}})
        eventually(lambda: not first.running, "it has ended", seconds=60)


@pytest.mark.parametrize("seed", range(2))
def test_killed_at_any_point_it_converges_after_a_restart(
    control_plane: ControlPlane,
    admin: Api,
    audit: AuditLog,
    nodes: FakeNodes,
    namespace: str,
    tmp_path: Path,
    seed: int,
) -> None:
    """The pool is changed and the operator killed after any of its writes, again and again."""
    draw = random.Random(seed)
    nodes.add("plain")
    pool = WatchedPool(admin, namespace)
    permit(admin, namespace, ONE)
    program = operator(control_plane, namespace, ONE)
    for _ in range(KILLS):
        declared = pool.declare(
            {
                "spec.topology": draw.choice(["Split", "Shared"]),
                "spec.pools.batch.maxBatch": draw.randint(8, 64),
            }
        )
        mark, writes = audit.mark(), draw.randint(1, 12)
        program.start()
        eventually(
            lambda mark=mark, writes=writes: (  # type: ignore[misc]
                len(audit.writes(mark, user=ONE)) >= writes
                or pool.shows("Ready", "True", "Serving")
            ),
            "it has begun",
        )
        program.kill()
    program.start()
    try:
        pool.wait_ready()
        manifests = rendered(declared, namespace, tmp_path)
        eventually(lambda: len(pool.children()) == manifests.count("\nkind: "), "pruned")
        assert_live(control_plane, pool, manifests)
    finally:
        program.stop()


def test_it_outlives_a_restart_of_the_api_server(
    control_plane: ControlPlane, admin: Api, nodes: FakeNodes, namespace: str
) -> None:
    nodes.add("plain")
    pool = WatchedPool(admin, namespace)
    with operating(control_plane, namespace, ONE) as program:
        pool.declare()
        pool.wait_ready()

        control_plane.api_server.kill()
        control_plane.start_api_server()
        admin.delete(pool.child("Service", "assistant-batch"))
        pool.patch({"spec": {"pools": {"batch": {"maxBatch": 65}}}})

        pool.wait_ready()
        eventually(lambda: ("Service", "assistant-batch") in pool.children(), "it is repaired")
        assert program.running
