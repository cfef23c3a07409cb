"""What may stand in the chart's values: nothing unknown, nothing that could not work."""

import json
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from cluster.chart import ChartError, template
from cluster.helm import CHART, environment, helm

VALUES: dict[str, Any] = YAML(typ="safe", pure=True).load((CHART / "values.yaml").read_text())
SCHEMA: dict[str, Any] = json.loads((CHART / "values.schema.json").read_text())
# Maps whose keys are the user's.
FREE = {"podAnnotations", "annotations", "nodeSelector", "requests", "limits", "matchLabels"}
FREE |= {"labels"}


def objects(values: dict[str, Any], path: str = "") -> Iterator[str]:
    """The path of every object of the values whose keys are the chart's."""
    yield path
    for key, value in values.items():
        if isinstance(value, dict) and key not in FREE:
            yield from objects(value, f"{path}{key}.")


def leaves(values: dict[str, Any], path: str = "") -> Iterator[str]:
    """The path of every key of the values that is the chart's."""
    for key, value in values.items():
        yield f"{path}{key}"
        if isinstance(value, dict) and key not in FREE | {"affinity", "resources"}:
            yield from leaves(value, f"{path}{key}.")


def test_lint_finds_nothing(tmp_path: Path) -> None:
    command = [str(helm()), "lint", "--strict", "--kube-version", "1.37", str(CHART)]
    ended = subprocess.run(
        command, env=environment(tmp_path), capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr


@pytest.mark.parametrize("path", [*objects(VALUES)])
def test_a_key_that_nobody_reads_is_refused(path: str) -> None:
    with pytest.raises(ChartError, match="misspelt"):
        template("--set", f"{path}misspelt=1")


@pytest.mark.parametrize(
    ("argument", "field"),
    [
        ("operator.replicas=0", "operator/replicas"),
        ("router.replicas=two", "router/replicas"),
        ("router.image.tag=latest", "router/image/tag"),
        ("router.image.digest=sha256:abc", "router/image/digest"),
        (f"worker.image.repository=worker@sha256:{'0' * 64}", "worker/image/repository"),
        ("scope.namespaces={Team}", "scope/namespaces/0"),
        ("scope.namespaces={a,a}", "scope/namespaces"),
        ("scope.clusterWide=no-thanks", "scope/clusterWide"),
        ("router.service.type=ExternalName", "router/service/type"),
        ("router.service.port=0", "router/service/port"),
        ("router.drainSeconds=-1", "router/drainSeconds"),
        ("operator.logLevel=TRACE", "operator/logLevel"),
        ("imagePullPolicy=Sometimes", "imagePullPolicy"),
        ("networkPolicy.routerFrom[0].podLabels.a=b", "networkPolicy/routerFrom/0"),
        ("networkPolicy.metricsFrom[0].ipBlock.except={a}", "networkPolicy/metricsFrom/0/ipBlock"),
        ("operator.tolerations[0].effect=Never", "operator/tolerations/0/effect"),
        ("router.affinity.hostAffinity.a=b", "router/affinity"),
        ("router.image.repository=example.com/router:latest", "router/image/repository"),
        ("router.callerKey.existingSecret=My Secret", "router/callerKey/existingSecret"),
        ("operator.prometheus.tokenSecret=a: b", "operator/prometheus/tokenSecret"),
        ("operator.prometheus.url=http://", "operator/prometheus/url"),
        # Helm writes a million as 1e+06, which is no number of seconds.
        ("operator.scaling.quietSeconds=1000000", "operator/scaling/quietSeconds"),
        ("monitoring.rules.window=1s5m", "monitoring/rules/window"),
        ("monitoring.runbooks=a: b", "monitoring/runbooks"),
    ],
)
def test_a_value_that_cannot_work_is_refused(argument: str, field: str) -> None:
    with pytest.raises(ChartError, match=f"'/{field}'"):
        template("--set", argument)


@pytest.mark.parametrize("path", [*leaves(VALUES)])
def test_a_value_that_is_taken_away_is_missed(path: str) -> None:
    parent, _, key = path.rpartition(".")
    with pytest.raises(ChartError, match=f"at '{_pointer(parent)}': missing property '{key}'"):
        template("--set", f"{path}=null")


def _pointer(path: str) -> str:
    return "".join(f"/{key}" for key in path.split(".") if key)


def test_the_images_are_those_of_the_projects_version() -> None:
    chart = YAML(typ="safe", pure=True).load((CHART / "Chart.yaml").read_text())
    project = tomllib.loads((CHART.parents[1] / "pyproject.toml").read_text())["project"]
    assert chart["appVersion"] == project["version"]


def test_what_a_parent_chart_adds_is_taken() -> None:
    assert template("--set", "global.registry=x")


def test_an_old_kubernetes_is_refused() -> None:
    with pytest.raises(ChartError, match="requires kubeVersion"):
        template("--kube-version", "1.29.9")


def test_every_object_of_the_schema_is_closed() -> None:
    for found in closed_ones(SCHEMA):
        assert found.get("additionalProperties") is not True, found
        if "properties" in found:
            assert found["additionalProperties"] is False, found


def closed_ones(schema: Any) -> Iterator[dict[str, Any]]:
    """Every schema of an object, at any depth."""
    if isinstance(schema, dict):
        if schema.get("type") == "object":
            yield schema
        for value in schema.values():
            yield from closed_ones(value)


def test_every_value_has_a_default_and_a_schema() -> None:
    assert missing(VALUES, SCHEMA) == []


def missing(values: dict[str, Any], schema: dict[str, Any], path: str = "") -> list[str]:
    """Keys of which the values or the schema know and the other does not."""
    schema = resolved(schema)
    if "properties" not in schema:
        return []
    expected = {*schema["properties"]} - {"global"}
    found = [f"{path}{key}" for key in expected ^ {*values}]
    for key in expected & {*values}:
        if isinstance(values[key], dict) and key not in FREE | {"affinity"}:
            found += missing(values[key], schema["properties"][key], f"{path}{key}.")
    return found


def resolved(schema: dict[str, Any]) -> dict[str, Any]:
    reference = schema.get("$ref")
    found: dict[str, Any] = (
        SCHEMA["definitions"][reference.rpartition("/")[2]] if reference else schema
    )
    return found
