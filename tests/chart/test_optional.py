"""What the chart adds where others' APIs are there and the values want it, and nowhere else."""

import json
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from chart.test_rendering import GATEWAY_POOLS, NO_CRD, SCALED, VALUE_SETS, find
from cluster.api import Object
from cluster.chart import ChartError, rendered, template
from splitpool_operator.planning.plan import plan
from splitpool_operator.rendering.installation import Installation
from splitpool_operator.rendering.manifests import children
from unit import golden, pool_files

APIS = {
    "monitoring.coreos.com/v1": {"PodMonitor", "PrometheusRule"},
    "inference.networking.k8s.io/v1": {"InferencePool"},
    "keda.sh/v1alpha1": {"ScaledObject"},
}
OBSERVED = [*VALUE_SETS["observed"], *NO_CRD]
DASHBOARDS = ("--set", "monitoring.dashboards.enabled=true")
EVERY_API = [item for api in APIS for item in ("--api-versions", api)]


def others(objects: list[Object]) -> dict[str, set[str]]:
    """Kinds by the API of others."""
    found: dict[str, set[str]] = {}
    for each in objects:
        if each["apiVersion"] in APIS:
            found.setdefault(each["apiVersion"], set()).add(each["kind"])
    return found


def test_the_objects_are_the_reviewed_ones() -> None:
    shown = [
        item
        for file in ("monitoring/pod-monitors", "monitoring/rules", "integrations/*")
        for item in ("--show-only", f"templates/{file}.yaml")
    ]
    golden.check("chart-optional.yaml", template(*OBSERVED, *EVERY_API, *shown))


@pytest.mark.parametrize("api", [*APIS])
def test_an_api_that_is_there_gets_its_objects_and_no_other(api: str) -> None:
    assert others(rendered(*OBSERVED, "--api-versions", api)) == {api: APIS[api]}


def test_without_the_apis_the_values_do_nothing() -> None:
    assert others(rendered(*OBSERVED)) == {}


def test_helm_3_renders_the_same(helm3: Path) -> None:
    def objects(program: Path | None) -> list[Object]:
        text = template(*OBSERVED, *EVERY_API, *DASHBOARDS, program=program)
        found = [each for each in YAML(typ="safe", pure=True).load_all(text) if each]
        # Keys are made anew by each rendering.
        kept = [each for each in found if each["kind"] != "Secret"]
        return sorted(kept, key=lambda each: (each["kind"], each["metadata"]["name"]))

    assert objects(helm3) == objects(None)


def test_without_the_values_the_apis_do_nothing() -> None:
    assert others(rendered(*NO_CRD, *EVERY_API)) == {}


def test_monitors_select_the_pods_by_ports_that_they_have() -> None:
    objects = rendered(*OBSERVED, *EVERY_API)
    pods = [
        each["spec"]["template"] for each in [*objects, *workers()] if each["kind"] == "Deployment"
    ]
    monitors = [each["spec"] for each in objects if each["kind"] == "PodMonitor"]
    selected = []
    for spec in monitors:
        (endpoint,) = spec["podMetricsEndpoints"]
        # Else `namespace` would be the router's, not the pool's.
        assert endpoint["honorLabels"] is True
        labels = spec["selector"]["matchLabels"].items()
        found = [pod for pod in pods if labels <= pod["metadata"]["labels"].items()]
        for pod in found:
            (container,) = pod["spec"]["containers"]
            assert endpoint["port"] in {port["name"] for port in container["ports"]}
        selected += found
    assert len(selected) == len(pods) == 4


def workers() -> list[Object]:
    """The objects of a pool, as the operator makes them."""
    made = plan(*pool_files.read(pool_files.CPU), cores=1)
    return children(made, Installation(worker_image="worker:1"))


def test_monitors_of_workers_look_where_pools_may_be() -> None:
    def places(*arguments: str) -> Object:
        objects = rendered(*OBSERVED, *EVERY_API, *arguments)
        found: Object = find(objects, "PodMonitor", "splitpool-worker")["spec"]["namespaceSelector"]
        return found

    assert places() == {"any": True}
    assert places("--set", "scope.clusterWide=false,scope.namespaces={a,b}") == {
        "matchNames": ["a", "b"]
    }


def test_a_gateways_pool_selects_the_workers_of_one_class() -> None:
    spec = find(rendered(*OBSERVED, *EVERY_API), "InferencePool", "assistant-interactive")["spec"]
    labels = spec["selector"]["matchLabels"].items()
    (pod,) = (
        each["spec"]["template"]
        for each in workers()
        if each["kind"] == "Deployment"
        and labels <= each["spec"]["template"]["metadata"]["labels"].items()
    )
    (container,) = pod["spec"]["containers"]
    assert spec["targetPorts"] == [{"number": container["ports"][0]["containerPort"]}]


def test_keda_scales_what_the_operator_makes_and_holds_without_data() -> None:
    deployments = {each["metadata"]["name"] for each in workers() if each["kind"] == "Deployment"}
    objects = rendered(*OBSERVED, *EVERY_API)
    specs = [each["spec"] for each in objects if each["kind"] == "ScaledObject"]
    assert {spec["scaleTargetRef"]["name"] for spec in specs} == deployments
    for spec in specs:
        assert spec["fallback"]["behavior"] == "currentReplicas"
        (trigger,) = spec["triggers"]
        # KEDA takes nothing for zero unless told otherwise, and would scale in.
        assert trigger["metadata"]["ignoreNullValues"] == "false"


@pytest.mark.parametrize("list_of", [GATEWAY_POOLS, SCALED])
def test_entries_without_what_they_need_are_refused(list_of: list[Object]) -> None:
    name = "gatewayApi.inferencePools" if list_of is GATEWAY_POOLS else "keda.scaledObjects"
    for key in list_of[0]:
        arguments = [
            item
            for field, value in list_of[0].items()
            if field not in {key, "endpointPicker"}
            for item in ("--set", f"{name}[0].{field}={value}")
        ]
        with pytest.raises(ChartError, match="missing propert"):
            template(*arguments)


def test_a_minimum_above_the_maximum_is_refused() -> None:
    values = json.dumps([SCALED[0] | {"minReplicas": 5}])
    with pytest.raises(ChartError, match="team-a/assistant, class interactive: minReplicas is 5"):
        template("--set-json", f"keda.scaledObjects={values}", *EVERY_API)
