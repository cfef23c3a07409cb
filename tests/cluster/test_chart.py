"""The chart on a real API server: installed, upgraded, rolled back, removed, installed again."""

import base64
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from cluster import crds
from cluster.api import Api, ApiError, Object, eventually
from cluster.control_plane import ControlPlane, running
from cluster.fake_nodes import KUBELET, FakeNodes, playing
from cluster.helm import helm, helm3
from cluster.releases import NEW_COLUMN, OLD_COLUMN, Helm, columns, deployment, left, older_chart
from unit.pool_files import CPU, changed

NAMESPACE = "splitpool"
CRD = "inferencepools.splitpool.dev"


@pytest.fixture(scope="module")
def plane(
    binaries: Mapping[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ControlPlane]:
    """A control plane without the project's CRD."""
    with running(binaries, tmp_path_factory.mktemp("chart")) as plane:
        yield plane


@pytest.fixture
def fakes(plane: ControlPlane) -> Iterator[FakeNodes]:
    with playing(plane.api(KUBELET, groups=["system:masters"])) as nodes:
        nodes.add("plain")
        nodes.add("other")
        yield nodes


both_helms = pytest.mark.parametrize("chart", [helm, helm3], ids=["helm4", "helm3"], indirect=True)


@pytest.fixture
def chart(request: pytest.FixtureRequest, plane: ControlPlane, fakes: FakeNodes) -> Iterator[Helm]:
    """Helm with a namespace that takes restricted pods only; nothing is installed yet."""
    admin = plane.admin
    restricted = {"pod-security.kubernetes.io/enforce": "restricted"}
    for name in (NAMESPACE, "team-a"):
        labelled = {"name": name, "labels": restricted}
        admin.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": labelled})
        eventually(lambda name=name: admin.listed("v1", "ServiceAccount", name), "it is set up")  # type: ignore[misc]
    program = getattr(request, "param", helm)
    yield Helm(plane, program(sys.stderr), NAMESPACE)
    for name in (NAMESPACE, "team-a"):
        admin.delete({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    admin.delete(_crd_named())
    eventually(lambda: not names(admin, "v1", "Namespace") & {NAMESPACE, "team-a"}, "it is gone")


def _crd_named() -> Object:
    return {key: crds.own()[key] for key in ("apiVersion", "kind", "metadata")}


def names(api: Api, version: str, kind: str) -> set[str]:
    return {each["metadata"]["name"] for each in api.listed(version, kind)}


def secret(api: Api, name: str, key: str, namespace: str = NAMESPACE) -> str:
    data = api.get("v1", "Secret", name, namespace)["data"]
    return base64.b64decode(data[key]).decode()


def a_pool() -> Object:
    return changed(CPU, {"metadata.namespace": "team-a"})


def test_restricted_pods_run_and_the_notes_say_where(plane: ControlPlane, chart: Helm) -> None:
    said = chart.install()

    assert "http://splitpool-router.splitpool.svc/v1" in said
    pods = plane.admin.listed("v1", "Pod", NAMESPACE)
    assert len(pods) == 4
    key = secret(plane.admin, "splitpool-caller-key", "key")
    assert len(bytes.fromhex(key)) == 32
    by_program: dict[str, set[str]] = {}
    for pod in pods:
        program = pod["metadata"]["labels"]["app.kubernetes.io/component"]
        by_program.setdefault(program, set()).add(pod["spec"]["nodeName"])
    assert by_program == {"operator": {"plain", "other"}, "router": {"plain", "other"}}


@both_helms
def test_an_upgrade_keeps_the_secrets_and_renews_the_crd(
    plane: ControlPlane, chart: Helm, tmp_path: Path
) -> None:
    admin = plane.admin
    token = ("--set", "internalToken.create=true", "--set", "scope.namespaces={team-a}")
    chart.install(*token, chart=older_chart(tmp_path))
    assert columns(admin) == {OLD_COLUMN}
    before = secrets(admin)
    assert before["team-a"] == before["release"]
    router = deployment(admin, NAMESPACE, "router")

    chart.install(*token, "--set", "router.accessLog=true")

    assert columns(admin) == {NEW_COLUMN}
    assert secrets(admin) == before
    template = deployment(admin, NAMESPACE, "router")["spec"]["template"]
    assert "--access-log" in template["spec"]["containers"][0]["args"]
    assert (
        template["metadata"]["annotations"] == router["spec"]["template"]["metadata"]["annotations"]
    )

    chart("rollback", "splitpool", "1", *chart.waiting)

    rolled = deployment(admin, NAMESPACE, "router")
    assert rolled["spec"]["template"] == router["spec"]["template"]
    assert secrets(admin) == before


def secrets(api: Api) -> dict[str, str]:
    return {
        "caller key": secret(api, "splitpool-caller-key", "key"),
        "release": secret(api, "splitpool-internal", "token"),
        "team-a": secret(api, "splitpool-internal", "token", "team-a"),
    }


@both_helms
def test_pools_and_the_token_outlive_the_release_and_are_taken_over_again(
    plane: ControlPlane, chart: Helm
) -> None:
    admin = plane.admin
    values = ("--set", "internalToken.create=true,scope.namespaces={team-a}")
    chart.install(*values)
    pool = admin.create(a_pool())
    token = secret(admin, "splitpool-internal", "token")

    chart("uninstall", "splitpool", *chart.waiting)

    assert left(admin) == {("Secret", "splitpool-internal")}
    assert admin.reread(pool)["metadata"]["uid"] == pool["metadata"]["uid"]

    chart.install(*values)

    assert admin.reread(pool)["metadata"]["uid"] == pool["metadata"]["uid"]
    assert secret(admin, "splitpool-internal", "token") == token
    admin.delete(pool)


def test_a_crd_that_is_not_kept_goes_with_its_pools(plane: ControlPlane, chart: Helm) -> None:
    admin = plane.admin
    said = chart.install("--set", "crds.keep=false,internalToken.create=true")
    assert "deletes the CustomResourceDefinition, every pool" in said
    pool = admin.create(a_pool())

    chart("uninstall", "splitpool", *chart.waiting)

    def gone() -> bool:
        try:
            admin.reread(pool)
        except ApiError as error:
            return error.code == 404
        return False

    eventually(gone, "the pool is gone")
    assert CRD not in names(admin, "apiextensions.k8s.io/v1", "CustomResourceDefinition")
    assert not left(admin)


def test_a_crd_of_somebody_else_is_left_alone(plane: ControlPlane, chart: Helm) -> None:
    admin = plane.admin
    crds.install(admin)
    before = admin.reread(_crd_named())["metadata"]["resourceVersion"]

    chart.install("--set", "crds.install=false")
    chart("uninstall", "splitpool", *chart.waiting)

    assert admin.reread(_crd_named())["metadata"]["resourceVersion"] == before
