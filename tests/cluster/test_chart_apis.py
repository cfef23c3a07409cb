"""The chart's optional objects on an API server that has the others' APIs, or gets them later."""

import io
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from chart.test_optional import APIS, EVERY_API, OBSERVED
from cluster.api import Api, eventually
from cluster.chart import rendered
from cluster.control_plane import ADMIN, ControlPlane, running
from cluster.fake_nodes import KUBELET, playing
from cluster.helm import helm
from cluster.others import gateway_crd, keda_crd, monitoring_crd, refused
from cluster.releases import Helm

CRDS = (
    monitoring_crd("PodMonitor"),
    monitoring_crd("PrometheusRule"),
    gateway_crd(),
    keda_crd(),
)


@pytest.fixture(scope="module")
def plane(
    binaries: Mapping[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ControlPlane]:
    """A control plane with nodes and the namespace of the pools."""
    with (
        running(binaries, tmp_path_factory.mktemp("apis")) as plane,
        playing(plane.api(KUBELET, groups=["system:masters"])) as nodes,
    ):
        nodes.add("plain")
        team = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-a"}}
        plane.admin.apply(team)
        yield plane


@pytest.fixture(scope="module")
def release(plane: ControlPlane) -> Helm:
    """Helm and the namespace `default`."""
    return Helm(plane, helm(sys.stderr), "default")


def there(api: Api) -> set[str]:
    """Kinds of others of which there are objects."""
    return {kind for version, kinds in APIS.items() for kind in kinds if api.listed(version, kind)}


def test_what_is_left_out_is_said_and_comes_with_its_api(
    plane: ControlPlane, release: Helm
) -> None:
    said = release.install(*OBSERVED)
    for left in (
        "PodMonitors and PrometheusRule",
        "gatewayApi.inferencePools",
        "keda.scaledObjects",
    ):
        assert f"Left out: {left}, since this cluster has no API" in said

    for each in CRDS:
        plane.admin.apply(each)
    eventually(lambda: _served(plane.admin), "the APIs are served")
    said = release.install(*OBSERVED)

    assert "Left out" not in said
    assert there(plane.admin) == {kind for kinds in APIS.values() for kind in kinds}

    release("uninstall", "splitpool", "--wait")
    assert there(plane.admin) == set()


def _served(api: Api) -> bool:
    """Whether every CustomResourceDefinition is established."""
    return all(
        {"type": "Established", "status": "True"}.items() <= condition.items()
        for crd in CRDS
        for condition in (api.reread(crd).get("status") or {}).get("conditions") or [{}]
        if condition.get("type") in {None, "Established"}
    )


def test_keda_and_the_gateway_know_every_field(
    plane: ControlPlane, binaries: Mapping[str, Path], tmp_path: Path
) -> None:
    for each in CRDS:
        plane.admin.apply(each)
    eventually(lambda: _served(plane.admin), "the APIs are served")
    kinds = {"ScaledObject", "InferencePool"}
    objects = [each for each in rendered(*OBSERVED, *EVERY_API) if each["kind"] in kinds]
    assert {each["kind"] for each in objects} == kinds
    file = tmp_path / "objects.yaml"
    with file.open("w") as out:
        YAML().dump_all(objects, out)
    config = plane.kubeconfig(ADMIN, groups=["system:masters"])
    apply = ["apply", "--validate=strict", "--dry-run=server", "-f", str(file)]
    ended = subprocess.run(
        [str(binaries["kubectl"]), f"--kubeconfig={config}", *apply],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr


def test_prometheus_operator_knows_every_field() -> None:
    kinds = {"PodMonitor", "PrometheusRule"}
    objects = [each for each in rendered(*OBSERVED, *EVERY_API) if each["kind"] in kinds]
    assert {each["kind"] for each in objects} == kinds
    for each in objects:
        out = io.StringIO()
        YAML().dump(each, out)
        assert refused(each, out.getvalue()) == ""
        assert "misspelt" in refused(each, out.getvalue().replace("spec:", "spec:\n  misspelt: 1"))
