"""What others do to the cluster around a pool ends in convergence or in a clear condition."""

import copy
import json
from collections.abc import Callable, Iterator

import pytest

from cluster import crds
from cluster.api import Api, ApiError, Object, eventually
from cluster.audit import AuditLog
from cluster.control_plane import ControlPlane
from cluster.fake_nodes import FakeNodes
from cluster.operators import operating
from cluster.processes import Program
from cluster.watched_pool import WatchedPool

USER = "neighbourly-operator"
SERVICE = "assistant-interactive"


@pytest.fixture
def pool(admin: Api, namespace: str) -> WatchedPool:
    return WatchedPool(admin, namespace)


@pytest.fixture
def everywhere(control_plane: ControlPlane) -> Iterator[Program]:
    """An operator of the whole cluster."""
    with operating(control_plane, None, USER, ["--sync-seconds", "2"]) as program:
        yield program


def test_a_crd_that_is_updated_meanwhile_disturbs_nothing(
    control_plane: ControlPlane, nodes: FakeNodes, admin: Api, pool: WatchedPool
) -> None:
    nodes.add("plain")
    with operating(control_plane, pool.namespace, USER) as program:
        pool.declare()
        pool.wait_ready()
        try:
            applied = control_plane.kubectl(
                *("apply", "--server-side", "--force-conflicts", "-f", "-"),
                stdin=json.dumps(_later(crds.own())),
            )
            assert applied.returncode == 0, applied.stderr
            eventually(lambda: _serves(admin, "v1alpha2"), "the new version is served")

            pool.patch({"spec": {"tomorrow": {"a": 1}, "pools": {"batch": {"maxBatch": 65}}}})
            pool.wait_ready()
            admin.delete(pool.child("Service", SERVICE))
            eventually(lambda: ("Service", SERVICE) in pool.children(), "it is repaired")
            assert pool.read()["spec"]["tomorrow"] == {"a": 1}
            assert program.running
        finally:
            admin.apply(crds.own())
            eventually(lambda: not _serves(admin, "v1alpha2"), "the old CRD is back")
        pool.patch({"spec": {"pools": {"batch": {"maxBatch": 66}}}})
        pool.wait_ready()
        assert program.running


def test_a_crd_that_is_deleted_and_comes_back_is_waited_for(
    control_plane: ControlPlane, nodes: FakeNodes, admin: Api, pool: WatchedPool
) -> None:
    nodes.add("plain")
    with operating(control_plane, pool.namespace, USER) as program:
        pool.declare()
        pool.wait_ready()
        admin.delete(crds.own())
        try:
            eventually(lambda: _is_gone(admin, crds.own()), "the CRD is gone")
            # Without watches it ends, and whatever runs it starts it again.
            eventually(lambda: not program.running, "it has ended", 60)
            program.start()
        finally:
            crds.install(admin)
        pool.declare()
        pool.wait("Ready", "True", "Serving", seconds=60)


def test_the_namesake_of_the_gateway_api_is_none_of_its_business(
    control_plane: ControlPlane,
    nodes: FakeNodes,
    admin: Api,
    audit: AuditLog,
    pool: WatchedPool,
) -> None:
    nodes.add("plain")
    theirs: Object = {
        "apiVersion": "inference.networking.k8s.io/v1",
        "kind": "InferencePool",
        "metadata": {"name": "assistant", "namespace": pool.namespace},
    }
    with operating(control_plane, pool.namespace, USER) as program:
        pool.declare()
        pool.wait_ready()
        crds.install(admin, crds.NAMESAKE)
        try:
            admin.create(theirs)
            pool.patch({"spec": {"pools": {"batch": {"maxBatch": 65}}}})
            pool.wait_ready()
            with operating(control_plane, pool.namespace, f"{USER}-2") as successor:
                program.stop()
                pool.patch({"spec": {"pools": {"batch": {"maxBatch": 66}}}})
                pool.wait_ready()
                assert successor.running
            assert not admin.reread(theirs).get("status")
        finally:
            admin.delete(crds.NAMESAKE)
    for user in (USER, f"{USER}-2"):
        groups = {each.group for each in audit.entries(user=user)}
        assert "splitpool.dev" in groups
        assert "inference.networking.k8s.io" not in groups


@pytest.mark.parametrize("writes", [1, 5, 14])
def test_a_namespace_that_is_deleted_meanwhile_leaves_nothing_and_nobody_tries_again(
    everywhere: Program, nodes: FakeNodes, admin: Api, audit: AuditLog, writes: int
) -> None:
    nodes.add("plain")
    made = _a_namespace(admin, f"closing-{writes}")
    pool = WatchedPool(admin, made["metadata"]["name"])
    begun = audit.mark()
    pool.declare()
    eventually(lambda: len(_writes(audit, begun, pool)) >= writes, "it has begun")

    admin.delete(made)
    eventually(lambda: _is_gone(admin, made), "the namespace is gone", 60)

    eventually(lambda: _remembered(everywhere) == 0, "nothing of it is remembered")
    after = audit.mark()
    eventually(lambda: _listings(audit, after) > 2, "it has listed everything again")
    assert _writes(audit, after, pool) == []
    assert everywhere.running
    assert "traceback" not in everywhere.log.read_text()


def test_a_foreign_object_of_a_childs_name_stalls_the_pool_until_it_is_gone(
    control_plane: ControlPlane, admin: Api, nodes: FakeNodes, pool: WatchedPool
) -> None:
    nodes.add("plain")
    owner = admin.create(_config_map("the-owner", pool.namespace))
    reference = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": "the-owner",
        "uid": owner["metadata"]["uid"],
        "controller": True,
    }
    foreign = admin.create(
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {
                "name": SERVICE,
                "namespace": pool.namespace,
                "ownerReferences": [reference],
            },
            "spec": {"ports": [{"port": 1}]},
        }
    )
    with operating(control_plane, pool.namespace, USER):
        pool.declare()
        pool.wait("Stalled", "True", "ForeignObject")
        assert f"Service {SERVICE} exists and belongs to ConfigMap the-owner" in pool.message(
            "Stalled"
        )
        assert "delete that object" in pool.message("Ready")

        admin.delete(foreign)
        pool.wait_ready()
        assert pool.condition("Stalled") == ("False", "NotStalled")


def _later(crd: Object) -> Object:
    """A CRD of a later release: one more field, and one more version that is not stored yet."""
    made = copy.deepcopy(crd)
    (only,) = made["spec"]["versions"]
    spec = only["schema"]["openAPIV3Schema"]["properties"]["spec"]
    spec["properties"]["tomorrow"] = {
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": True,
    }
    made["spec"]["versions"].append(only | {"name": "v1alpha2", "storage": False})
    return made


def _serves(admin: Api, version: str) -> bool:
    return _is_there(lambda: admin.request("GET", f"/apis/splitpool.dev/{version}"))


def _a_namespace(admin: Api, name: str) -> Object:
    made = admin.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    eventually(lambda: admin.listed("v1", "ServiceAccount", name), "it has its service account")
    return made


def _is_gone(admin: Api, obj: Object) -> bool:
    return not _is_there(lambda: admin.reread(obj))


def _is_there(ask: Callable[[], object]) -> bool:
    try:
        ask()
    except ApiError as error:
        if error.code != 404:
            raise
        return False
    return True


def _config_map(name: str, namespace: str) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace},
    }


def _writes(audit: AuditLog, since: int, pool: WatchedPool) -> list[str]:
    """What the operator tried to write in the pool's namespace."""
    return [
        f"{each.verb} {each.resource}"
        for each in audit.writes(since, user=USER)
        if each.namespace == pool.namespace
    ]


def _listings(audit: AuditLog, since: int) -> int:
    entries = audit.entries(since, user=USER, verbs={"list"})
    return sum(each.resource == "inferencepools" for each in entries)


def _remembered(program: Program) -> int:
    """How many things the operator held after its last listing."""
    lines = [json.loads(each) for each in program.log.read_text().splitlines()]
    last = [each for each in lines if each["message"] == "listed"][-1]
    return int(last["pools"] + last["objects"] + last["indexed"])
