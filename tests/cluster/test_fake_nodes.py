"""Nodes that are only told of: the real scheduler and controllers take them for real ones."""

import pytest

from cluster.api import Api, ApiError, Object, eventually
from cluster.audit import AuditLog
from cluster.control_plane import ControlPlane
from cluster.crds import condition
from cluster.fake_nodes import KUBELET, FakeNodes, playing
from cluster.nodes import gpu_device
from cluster.pod_states import Fate
from cluster.workloads import claiming, deployment, memory_claim_template, pod, pod_spec


def test_a_deployment_becomes_available_on_a_fake_node(
    admin: Api, nodes: FakeNodes, namespace: str
) -> None:
    nodes.add("plain")
    made = admin.create(deployment("web", namespace, replicas=3))

    eventually(lambda: condition(admin.reread(made), "Available") == "True", "it is available")

    pods = admin.listed("v1", "Pod", namespace)
    assert len({each["status"]["podIP"] for each in pods}) == 3
    assert {each["spec"]["nodeName"] for each in pods} == {"plain"}


def test_a_service_has_the_ready_pods_as_endpoints(
    admin: Api, nodes: FakeNodes, namespace: str
) -> None:
    nodes.add("plain")
    admin.create(deployment("web", namespace, replicas=2))
    admin.create(service("web", namespace))

    def ready() -> list[bool]:
        slices = admin.listed("discovery.k8s.io/v1", "EndpointSlice", namespace)
        found = [end for each in slices for end in each["endpoints"] or []]
        return [end["conditions"]["ready"] for end in found]

    eventually(lambda: ready() == [True, True], "both pods are ready endpoints")
    nodes.befall(Fate.NEVER_READY, namespace=namespace)
    eventually(lambda: ready() == [False, False], "no pod is a ready endpoint")


@pytest.mark.parametrize(
    ("fate", "phase", "waiting"),
    [
        (Fate.STARTING, "Pending", "ContainerCreating"),
        (Fate.IMAGE_ERROR, "Pending", "ImagePullBackOff"),
        (Fate.CRASH_LOOP, "Running", "CrashLoopBackOff"),
        (Fate.OOM_KILLED, "Running", "CrashLoopBackOff"),
        (Fate.NEVER_READY, "Running", None),
    ],
)
def test_a_pod_shows_what_befell_it(
    admin: Api, nodes: FakeNodes, namespace: str, fate: Fate, phase: str, waiting: str | None
) -> None:
    nodes.befall(fate, namespace=namespace, labels={"app": "broken"})
    nodes.add("plain")
    broken = admin.create(pod("broken", namespace))
    healthy = admin.create(pod("healthy", namespace))

    eventually(lambda: told(admin, broken) and told(admin, healthy), "both have a status")

    (container,) = admin.reread(broken)["status"]["containerStatuses"]
    assert admin.reread(broken)["status"]["phase"] == phase
    assert container["state"].get("waiting", {}).get("reason") == waiting
    assert condition(admin.reread(broken), "Ready") == "False"
    assert condition(admin.reread(healthy), "Ready") == "True"


def test_a_pod_over_its_memory_limit_was_killed_with_137(
    admin: Api, nodes: FakeNodes, namespace: str
) -> None:
    nodes.add("plain")
    nodes.befall(Fate.OOM_KILLED, namespace=namespace)
    made = admin.create(pod("hungry", namespace))
    eventually(lambda: told(admin, made), "it has a status")

    (container,) = admin.reread(made)["status"]["containerStatuses"]
    last = container["lastState"]["terminated"]
    assert (last["reason"], last["exitCode"]) == ("OOMKilled", 137)
    assert container["restartCount"] > 0


def test_pods_recover_when_their_fate_changes(admin: Api, nodes: FakeNodes, namespace: str) -> None:
    nodes.add("plain")
    nodes.befall(Fate.CRASH_LOOP, namespace=namespace)
    made = admin.create(pod("one", namespace))
    eventually(lambda: told(admin, made), "it has a status")

    nodes.befall(Fate.READY, namespace=namespace)

    assert condition(admin.reread(made), "Ready") == "True"


def test_a_deleted_pod_is_gone_and_a_lingering_one_terminates_until_it_may_go(
    admin: Api, nodes: FakeNodes, namespace: str
) -> None:
    nodes.add("plain")
    nodes.befall(Fate.LINGERING, namespace=namespace, labels={"app": "slow"})
    slow, quick = (admin.create(pod(name, namespace)) for name in ("slow", "quick"))
    eventually(lambda: told(admin, slow) and told(admin, quick), "both have a status")

    admin.delete(slow)
    admin.delete(quick)

    eventually(lambda: gone(admin, quick), "the quick one is gone")
    eventually(lambda: condition(admin.reread(slow), "Ready") == "False", "it is not ready")
    assert "deletionTimestamp" in admin.reread(slow)["metadata"]
    nodes.befall(Fate.READY, namespace=namespace)
    assert gone(admin, slow)


@pytest.mark.parametrize("resource", ["nvidia.com/gpu", "nvidia.com/mig-3g.40gb"])
def test_extended_resources_are_counted_by_the_scheduler(
    admin: Api, nodes: FakeNodes, namespace: str, resource: str
) -> None:
    nodes.add("gpus", {resource: "2"})
    spec = pod_spec({resource: "1"})
    made = [admin.create(pod(f"p{n}", namespace, spec)) for n in range(3)]

    eventually(lambda: len(bound(admin, namespace)) == 2, "two pods have a node")
    eventually(lambda: any(unschedulable(admin, each) for each in made), "the third has none")
    assert len(bound(admin, namespace)) == 2


def test_gpu_memory_is_shared_out_by_the_scheduler_in_bytes(
    admin: Api, nodes: FakeNodes, namespace: str
) -> None:
    nodes.add("gpus", devices=[gpu_device("gpu-0", "139Gi")])
    for name, memory in (("large", "80Gi"), ("small", "48Gi")):
        admin.create(memory_claim_template(name, namespace, memory))
    admin.create(pod("one", namespace, claiming("large")))
    admin.create(pod("two", namespace, claiming("small")))
    eventually(lambda: len(bound(admin, namespace)) == 2, "80Gi and 48Gi fit 139Gi")

    third = admin.create(pod("three", namespace, claiming("small")))

    eventually(lambda: unschedulable(admin, third), "another 48Gi do not")
    assert len(bound(admin, namespace)) == 2


def test_nodes_have_heartbeats_and_leave_nothing_behind(
    control_plane: ControlPlane, admin: Api, audit: AuditLog
) -> None:
    mark = audit.mark()
    with playing(control_plane.api(KUBELET, groups=["system:masters"])) as fakes:
        fakes.add("brief", devices=[gpu_device("gpu-0", "80Gi")])
        lease = admin.get("coordination.k8s.io/v1", "Lease", "brief", "kube-node-lease")
        assert lease["spec"]["holderIdentity"] == "brief"
        eventually(lambda: not admin.get("v1", "Node", "brief")["spec"].get("taints"), "no taint")

    assert admin.listed("v1", "Node") == []
    assert admin.listed("resource.k8s.io/v1", "ResourceSlice") == []
    assert {each.resource for each in audit.writes(mark, user=KUBELET)} >= {"nodes", "leases"}


def service(name: str, namespace: str) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"clusterIP": "None", "selector": {"app": name}, "ports": [{"port": 80}]},
    }


def told(admin: Api, made: Object) -> bool:
    return "containerStatuses" in admin.reread(made)["status"]


def gone(admin: Api, made: Object) -> bool:
    try:
        admin.reread(made)
    except ApiError as error:
        return error.code == 404
    return False


def bound(admin: Api, namespace: str) -> list[Object]:
    return [each for each in admin.listed("v1", "Pod", namespace) if "nodeName" in each["spec"]]


def unschedulable(admin: Api, made: Object) -> bool:
    found = admin.reread(made)["status"].get("conditions", [])
    return any(each.get("reason") == "Unschedulable" for each in found)
