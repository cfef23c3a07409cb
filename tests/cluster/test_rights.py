"""Operator and router run under exactly the chart's rights: none is missing, none left over."""

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from cluster.api import Api, Object, eventually
from cluster.audit import AuditLog, Entry
from cluster.chart import rendered
from cluster.control_plane import ControlPlane, Site, running
from cluster.fake_nodes import KUBELET, FakeNodes, playing
from cluster.helm import helm
from cluster.nodes import gpu_device
from cluster.processes import Program
from cluster.releases import Helm, account, deployment, program
from cluster.watched_pool import WatchedPool
from unit.pool_files import GPU

Right = tuple[str, str, str]
# Fake nodes run no router that could be asked.
HERE = {"--router": None, "--health-port": "0"}
OURS = {"metadata": {"labels": {"splitpool.dev/class": None}}}


@pytest.fixture(params=["whole cluster", "one namespace"])
def scope(request: pytest.FixtureRequest) -> list[str]:
    clusterwide = "true" if request.param == "whole cluster" else "false"
    return ["--set", f"crds.install=false,scope.clusterWide={clusterwide}"]


@pytest.fixture
def release(
    control_plane: ControlPlane, nodes: FakeNodes, namespace: str, scope: list[str]
) -> Iterator[Helm]:
    """The chart, installed; fake nodes play its pods."""
    nodes.add("gpu-0", devices=[gpu_device(f"gpu-{n}", "80Gi") for n in range(4)])
    chart = Helm(control_plane, helm(), namespace)
    chart.install(*scope)
    yield chart
    chart("uninstall", "splitpool")


@contextlib.contextmanager
def starting(each: Program) -> Iterator[Program]:
    each.start()
    try:
        yield each
    finally:
        each.stop()


def granted(component: str, scope: list[str]) -> set[Right]:
    """Group, resource and verb of everything that the chart's roles allow."""
    return {
        (group, resource, verb)
        for role in rendered(*scope)
        if role["kind"] in {"Role", "ClusterRole"}
        and role["metadata"]["labels"]["app.kubernetes.io/component"] == component
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def used(entries: list[Entry]) -> set[Right]:
    """The same of everything that was done; an apply that makes an object creates it too."""
    rights = set()
    for each in entries:
        if each.resource:
            resource = "/".join(filter(None, (each.resource, each.subresource)))
            rights.add((each.group, resource, each.verb))
            if each.verb == "patch" and each.code == 201:
                rights.add((each.group, resource, "create"))
    return rights


def live_through_everything(api: Api, pool: WatchedPool) -> None:
    """What the operator is for: create, repair, replace, prune; and the pool's end."""
    pool.declare(DRA, GPU)
    pool.wait_ready()
    for (kind, name), child in pool.children().items():
        if kind != "ConfigMap" or name.startswith("assistant-batch"):
            api.patch(child, OURS)

    def repaired() -> bool:
        return all("splitpool.dev/class" in labels(each) for each in pool.children().values())

    eventually(repaired, "every child has its label again")
    pool.declare(DRA | {"spec.topology": "Shared"}, GPU)
    pool.wait_ready()

    def pruned() -> bool:
        return {labels(each)["splitpool.dev/class"] for each in pool.children().values()} == {
            "shared"
        }

    eventually(pruned, "only the shared role is left")
    pool.delete()
    # It learns of kinds that are as new as this one only now and then.
    eventually(lambda: not pool.children(), "the garbage collector has removed the children", 120)


DRA: dict[str, Any] = {
    "spec.model.source": "oci://models/m:1",
    "spec.pools.interactive.replicas": 1,
    "spec.pools.batch.replicas": 1,
}


def labels(child: Object) -> dict[str, str]:
    found: dict[str, str] = child["metadata"].get("labels", {})
    return found


def test_the_operator_needs_every_right_of_the_chart_and_no_other(
    control_plane: ControlPlane, admin: Api, audit: AuditLog, release: Helm, scope: list[str]
) -> None:
    found = deployment(admin, release.namespace, "operator")
    here = program(control_plane, found, HERE)
    mark = audit.mark()
    with starting(here):
        live_through_everything(admin, WatchedPool(admin, release.namespace))

    user = account(found)
    assert audit.denied(mark, user=user) == []
    assert used(audit.entries(mark, user=user)) == granted("operator", scope)


def test_the_router_needs_every_right_of_the_chart_and_no_other(
    control_plane: ControlPlane, admin: Api, audit: AuditLog, release: Helm, scope: list[str]
) -> None:
    found = deployment(admin, release.namespace, "router")
    here = program(control_plane, found, {"--host": "127.0.0.1", "--port": "0"})
    pool = WatchedPool(admin, release.namespace)
    user, mark = account(found), audit.mark()
    with starting(here):
        pool.declare(DRA, GPU)
        eventually(
            lambda: used(audit.entries(mark, user=user)) >= granted("router", scope),
            "it lists and watches",
        )
        assert here.running
    pool.delete()
    assert audit.denied(mark, user=user) == []
    assert used(audit.entries(mark, user=user)) == granted("router", scope)


@pytest.fixture(scope="module")
def guarded(
    binaries: Mapping[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ControlPlane]:
    """A control plane that guards owner references, as OpenShift's does."""
    plugin = "--enable-admission-plugins=OwnerReferencesPermissionEnforcement"
    folder = tmp_path_factory.mktemp("guarded")
    with running(binaries, folder, Site(api_server=(plugin,))) as plane:
        yield plane


def test_guarded_owner_references_need_one_right_more(guarded: ControlPlane) -> None:
    admin = guarded.admin
    nodes = guarded.api(KUBELET, groups=["system:masters"])
    with playing(nodes) as fakes:
        fakes.add("plain")
        chart = Helm(guarded, helm(), "default")
        chart.install()
        found = deployment(admin, "default", "operator")
        pool = WatchedPool(admin, "default")
        with starting(program(guarded, found, HERE)):
            pool.declare()
            pool.wait("Ready", "False", "ApplyFailed")
            assert "blockOwnerDeletion" in pool.message("Ready")

            chart.install("--set", "rbac.ownerFinalizers=true")

            # The plugin, too, learns of new kinds only now and then.
            pool.wait("Ready", "True", "Serving", 120)
