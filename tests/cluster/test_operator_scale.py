"""Many pools cost little, and nothing while nothing changes."""

from cluster import scale
from cluster.api import Api, eventually
from cluster.control_plane import ControlPlane
from cluster.fake_nodes import FakeNodes
from cluster.operators import operating

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
