"""The operator on a real API server: pools become children, and stay what they were declared."""

from collections.abc import Iterator

import pytest

from cluster.api import Api, eventually
from cluster.audit import AuditLog
from cluster.control_plane import ControlPlane
from cluster.fake_nodes import FakeNodes
from cluster.nodes import gpu_device
from cluster.operators import operating
from cluster.pod_states import Fate
from cluster.watched_pool import WatchedPool
from splitpool_operator.cluster.diff import holds
from splitpool_operator.planning.plan import plan
from splitpool_operator.rendering.installation import Installation
from splitpool_operator.rendering.manifests import children
from unit import pool_files
from unit.pool_files import GPU

USER = "pool-operator"
BOTH = ("assistant-interactive", "assistant-batch")


@pytest.fixture
def pool(admin: Api, namespace: str) -> WatchedPool:
    return WatchedPool(admin, namespace)


@pytest.fixture
def running(control_plane: ControlPlane, namespace: str) -> Iterator[None]:
    with operating(control_plane, namespace, USER):
        yield


@pytest.mark.usefixtures("running")
def test_a_pool_becomes_its_children_and_serves(
    control_plane: ControlPlane, nodes: FakeNodes, pool: WatchedPool
) -> None:
    nodes.add("plain")
    made = pool.declare()
    pool.wait_ready()

    children = pool.children()
    kinds = ["Deployment", "Service", "PodDisruptionBudget", "ServiceAccount"]
    assert {(kind, name) for kind in kinds for name in BOTH} < {*children}
    assert len([kind for kind, _ in children if kind == "ConfigMap"]) == 2
    for child in children.values():
        (owner,) = child["metadata"]["ownerReferences"]
        assert owner["uid"] == made["metadata"]["uid"]
        managers = {each["manager"] for each in child["metadata"]["managedFields"]}
        assert "splitpool-operator" in managers
        assert "finalizers" not in child["metadata"]
    assert "finalizers" not in pool.read()["metadata"]
    assert "annotations" not in pool.read()["metadata"]
    waited = control_plane.kubectl(
        *("wait", "--for=condition=Ready", "--timeout=5s", "-n", pool.namespace),
        "inferencepools.splitpool.dev/assistant",
    )
    assert waited.returncode == 0, waited.stderr
    shown = control_plane.kubectl("get", "spl", "-n", pool.namespace).stdout.splitlines()
    assert shown[0].split()[:7] == [
        *("NAME", "MODEL", "INTERACTIVE", "BATCH", "TTFT-P99", "ENFORCEMENT", "READY")
    ]
    assert shown[1].split()[1:4] == [f"smollm2-{pool.namespace}", "1/1", "1/1"]
    assert shown[1].split()[-2] == "True"


@pytest.mark.usefixtures("running")
def test_what_render_prints_is_what_is_applied(nodes: FakeNodes, pool: WatchedPool) -> None:
    nodes.add("plain")
    declared = pool.declare({"spec.resume": {"mode": "Always"}})
    pool.wait_ready()
    file = {key: declared[key] for key in ("apiVersion", "kind", "spec")}
    file["metadata"] = {"name": "assistant", "namespace": pool.namespace}

    (read,) = pool_files.read(file)
    rendered = children(plan(read, cores=1), Installation(worker_image="example.com/worker:1"))

    applied = pool.children()
    assert len(rendered) == len(applied)
    for each in rendered:
        live = applied[each["kind"], each["metadata"]["name"]]
        assert holds(live, each)


@pytest.mark.usefixtures("running")
def test_a_deleted_pool_leaves_nothing(nodes: FakeNodes, pool: WatchedPool) -> None:
    nodes.add("plain")
    pool.declare()
    pool.wait_ready()

    pool.delete()

    eventually(lambda: not pool.children() and not pool.pods(), "nothing is left")


@pytest.mark.usefixtures("running")
def test_drift_is_repaired(admin: Api, nodes: FakeNodes, pool: WatchedPool) -> None:
    nodes.add("plain")
    pool.declare()
    pool.wait_ready()
    before = pool.children()

    admin.patch(before["Deployment", BOTH[0]], {"spec": {"replicas": 3}})
    admin.delete(before["Service", BOTH[1]])
    admin.delete(before["PodDisruptionBudget", BOTH[0]])
    labels = {"metadata": {"labels": {"app.kubernetes.io/managed-by": None}}}
    admin.patch(before["ServiceAccount", BOTH[0]], labels)

    def repaired() -> bool:
        now = pool.children()
        return (
            now["Deployment", BOTH[0]]["spec"]["replicas"] == 1
            and ("Service", BOTH[1]) in now
            and ("PodDisruptionBudget", BOTH[0]) in now
            and now["ServiceAccount", BOTH[0]]["metadata"]["labels"]
            == before["ServiceAccount", BOTH[0]]["metadata"]["labels"]
        )

    eventually(repaired, "every child is what it was")


@pytest.mark.usefixtures("running")
def test_what_others_add_to_a_child_stays(admin: Api, nodes: FakeNodes, pool: WatchedPool) -> None:
    nodes.add("plain")
    pool.declare()
    pool.wait_ready()
    service = pool.child("Service", BOTH[0])
    admin.patch(service, {"metadata": {"annotations": {"team": "a"}}})

    pool.patch({"spec": {"pools": {"interactive": {"maxBatch": 4}}}})
    pool.wait_ready()

    assert pool.child("Service", BOTH[0])["metadata"]["annotations"]["team"] == "a"


def test_a_settled_pool_costs_no_write(
    control_plane: ControlPlane, audit: AuditLog, nodes: FakeNodes, pool: WatchedPool
) -> None:
    nodes.add("plain")
    with operating(control_plane, pool.namespace, USER, ["--sync-seconds", "1"]):
        pool.declare()
        pool.wait_ready()

        def listings(since: int) -> int:
            entries = audit.entries(since, user=USER, verbs={"list"})
            return sum(entry.resource == "inferencepools" for entry in entries)

        settled = audit.mark()
        eventually(lambda: listings(settled) > 1, "everything was looked at again")
        mark = audit.mark()
        eventually(lambda: listings(mark) > 4, "everything was looked at four times more")
        writes = {(each.resource, each.verb) for each in audit.writes(mark, user=USER)}
    assert writes <= {("leases", "update")}
    assert audit.denied(user=USER) == []


@pytest.mark.usefixtures("running")
@pytest.mark.parametrize(
    ("fate", "reason"),
    [
        (Fate.CRASH_LOOP, "CrashLoop"),
        (Fate.OOM_KILLED, "OOMKilled"),
        (Fate.IMAGE_ERROR, "ImagePullFailed"),
        (Fate.CONFIG_ERROR, "ContainerCannotStart"),
        (Fate.CANNOT_RUN, "ContainerCannotStart"),
        (Fate.DOWNLOAD_FAILED, "ModelDownloadFailed"),
        (Fate.HELD, "WorkersStarting"),
        (Fate.NEVER_READY, "WorkersStarting"),
    ],
)
def test_a_pool_says_why_it_does_not_serve_and_recovers(
    nodes: FakeNodes, pool: WatchedPool, fate: Fate, reason: str
) -> None:
    nodes.add("plain")
    nodes.befall(fate, namespace=pool.namespace)
    pool.declare({"spec.model.source": "hf://org/model"})
    pool.wait("Ready", "False", reason)
    assert pool.condition("Reconciling") == ("True", reason)
    assert pool.condition("Stalled") == ("False", "NotStalled")

    nodes.befall(Fate.READY, namespace=pool.namespace)

    pool.wait_ready()
    assert pool.condition("Reconciling") == ("False", "Settled")


@pytest.mark.usefixtures("running")
def test_a_change_rolls_out_and_old_pods_do_not_count(nodes: FakeNodes, pool: WatchedPool) -> None:
    nodes.add("plain")
    pool.declare()
    pool.wait_ready()
    nodes.befall(Fate.IMAGE_ERROR, namespace=pool.namespace)
    pool.patch({"spec": {"podTemplate": {"image": "example.com/broken:1"}}})

    pool.wait("Ready", "False", "ImagePullFailed")
    assert "example.com/broken:1" in pool.message("Ready")

    nodes.befall(Fate.READY, namespace=pool.namespace)
    pool.wait_ready()
    images = {pod["spec"]["containers"][0]["image"] for pod in pool.pods()}
    assert images == {"example.com/broken:1"}


@pytest.mark.usefixtures("running")
def test_what_is_no_longer_planned_is_pruned(nodes: FakeNodes, pool: WatchedPool) -> None:
    nodes.add("plain")
    pool.declare({"spec.accelerator.cores": 4})
    pool.wait_ready()
    before = {name for kind, name in pool.children() if kind == "ConfigMap"}

    pool.declare({"spec.topology": "Shared", "spec.accelerator.cores": 4})
    pool.wait_ready()

    def only_shared() -> bool:
        names = {name for kind, name in pool.children() if kind != "ConfigMap"}
        return names == {"assistant-shared"}

    eventually(only_shared, "only the shared role is left")
    after = {name for kind, name in pool.children() if kind == "ConfigMap"}
    assert len(after) == 1
    assert not after & before


@pytest.mark.usefixtures("running")
def test_a_foreign_object_of_a_childs_name_is_left_alone(
    admin: Api, nodes: FakeNodes, pool: WatchedPool
) -> None:
    nodes.add("plain")
    foreign = admin.create(
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": BOTH[0], "namespace": pool.namespace},
            "spec": {"ports": [{"port": 1}]},
        }
    )
    pool.declare()

    pool.wait("Stalled", "True", "ForeignObject")

    assert f"Service {BOTH[0]}" in pool.message("Stalled")
    assert admin.reread(foreign)["spec"]["ports"][0]["port"] == 1


@pytest.mark.usefixtures("running")
def test_a_gpu_that_is_full_makes_a_pool_wait_for_one(nodes: FakeNodes, pool: WatchedPool) -> None:
    nodes.add("gpu-0", devices=[gpu_device("gpu-0", "80Gi")])
    one_each = {"spec.pools.interactive": {"vram": "60Gi"}, "spec.pools.batch": {"vram": "60Gi"}}
    pool.declare({"spec.model.source": "oci://models/m:1"} | one_each, GPU)

    pool.wait("Ready", "False", "WaitingForGPU")

    pool.wait_message("Ready", "cannot allocate all claims")

    def available() -> list[str]:
        return sorted(pool.condition(f"{each}Available")[0] for each in ("Interactive", "Batch"))

    eventually(lambda: available() == ["False", "True"], "one class is available")
    nodes.add("gpu-1", devices=[gpu_device("gpu-1", "80Gi")])
    pool.wait_ready()


@pytest.mark.usefixtures("running")
def test_replicas_that_another_autoscaler_owns_stay_as_it_sets_them(
    admin: Api, nodes: FakeNodes, pool: WatchedPool
) -> None:
    nodes.add("plain")
    scaled = {
        "spec.pools.batch.replicas": 2,
        "spec.accelerator.memory": "64Gi",
        "spec.autoscaling": {"mode": "External", "batch": {"maxReplicas": 8}},
    }
    pool.declare(scaled)
    pool.wait_ready()
    assert pool.child("Deployment", BOTH[1])["spec"]["replicas"] == 2

    admin.patch(pool.child("Deployment", BOTH[1]), {"spec": {"replicas": 5}})
    pool.patch({"spec": {"pools": {"batch": {"maxBatch": 99}}}})
    pool.wait_ready()

    assert pool.child("Deployment", BOTH[1])["spec"]["replicas"] == 5
    assert pool.read()["status"]["pools"]["batch"]["summary"] == "5/5"


@pytest.mark.usefixtures("running")
def test_the_newer_of_two_pools_with_one_model_waits_for_the_older(
    admin: Api, nodes: FakeNodes, pool: WatchedPool
) -> None:
    nodes.add("plain")
    older = pool.declare()
    pool.wait_ready()
    newer = {key: older[key] for key in ("apiVersion", "kind", "spec")}
    newer["metadata"] = {"name": "second", "namespace": pool.namespace}
    made = admin.create(newer)

    def reason(kind: str) -> str:
        found = (admin.reread(made).get("status") or {}).get("conditions") or []
        return next((str(each["reason"]) for each in found if each["type"] == kind), "")

    eventually(lambda: reason("Stalled") == "ModelNameConflict", "the newer one is stalled")
    pool.delete()
    eventually(lambda: reason("Ready") == "Serving", "the newer one serves")
