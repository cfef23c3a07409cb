"""Many pools cost little, and nothing while nothing changes."""

from cluster import scale
from cluster.api import Api, eventually
from cluster.control_plane import ControlPlane
from cluster.fake_nodes import FakeNodes
from cluster.operators import operating
from cluster.processes import free_ports
from cluster.test_autoscaling import FLAGS, PACE
from splitpool_operator.autoscaling.queries import queries

POOLS = 20


def test_pools_converge_with_few_requests_each_and_then_rest(
    control_plane: ControlPlane, admin: Api, nodes: FakeNodes, namespace: str
) -> None:
    audit, user = control_plane.audit, scale.USER
    scale.add_nodes(nodes, POOLS)
    scale.declare(admin, namespace, POOLS)
    start = audit.mark()
    with operating(control_plane, namespace, user, ["--sync-seconds", "1"]):
        eventually(lambda: scale.ready(admin, namespace) == POOLS, "all are ready", 120)
        writes = scale.besides_the_lease(audit.writes(start, user=user))
        settled = audit.mark()
        eventually(lambda: scale.listings(audit.entries(settled, user=user)) > 1, "it has settled")
        mark = audit.mark()
        eventually(lambda: scale.listings(audit.entries(mark, user=user)) > 3, "it looked again")
        idle = scale.besides_the_lease(audit.writes(mark, user=user))

    assert writes["patch deployments"] == 2 * POOLS
    assert writes["patch services"] == 2 * POOLS
    assert writes["patch inferencepools/status"] <= 12 * POOLS
    assert not idle


def test_managed_pools_are_measured_all_at_once_and_cost_no_write_either(
    control_plane: ControlPlane, admin: Api, nodes: FakeNodes, namespace: str
) -> None:
    audit, user = control_plane.audit, scale.USER
    (port,) = free_ports(1)
    scale.add_nodes(nodes, POOLS)
    scale.declare(admin, namespace, POOLS, scale.MANAGED)
    with scale.calm(namespace, POOLS, PACE) as signals:
        arguments = ["--prometheus-url", signals.url, "--health-port", str(port), *FLAGS]
        with operating(control_plane, namespace, user, arguments):
            steady = "AutoscalingActive"
            eventually(lambda: scale.ready(admin, namespace) == POOLS, "all are ready", 120)
            eventually(lambda: scale.ready(admin, namespace, steady) == POOLS, "all are measured")
            mark, asked, looks = audit.mark(), signals.asked, reconciles(port)
            eventually(lambda: reconciles(port) > looks + 10 * POOLS, "each was looked at", 120)
            looks, asked = reconciles(port) - looks, signals.asked - asked
            idle = scale.besides_the_lease(audit.writes(mark, user=user))

    assert not idle
    assert asked / len(queries(PACE)) < looks / 4


def reconciles(port: int) -> int:
    return scale.total(port, "splitpool_operator_reconcile_total")
