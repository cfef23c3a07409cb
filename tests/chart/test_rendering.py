"""What the chart renders: reviewed when it changes, and right for every Kubernetes it allows."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
from ruamel.yaml import YAML

from cluster import crds
from cluster.api import Object
from cluster.chart import rendered, template
from cluster.helm import CHART
from splitpool_operator.planning.plan import plan
from splitpool_operator.rendering.installation import Installation
from splitpool_operator.rendering.manifests import children
from splitpool_router import config as router_config
from unit import golden, pool_files

DIGEST = "sha256:" + "0123456789abcdef" * 4
PLACE = {"namespace": "team-a", "pool": "assistant"}
GATEWAY_POOLS = [PLACE | {"class": "interactive", "endpointPicker": {"name": "assistant-epp"}}]
SCALED = [
    PLACE
    | {"class": name, "minReplicas": least, "maxReplicas": 4, "requestsPerWorker": 6}
    | {"prometheus": "http://prometheus.monitoring:9090"}
    for name, least in (("interactive", 1), ("batch", 0))
]
VALUE_SETS = {
    "defaults": [],
    "namespaced": [
        *("--set", "scope.clusterWide=false", "--set", "scope.namespaces={team-a,team-b}"),
        *("--set", "internalToken.create=true", "--set", "rbac.ownerFinalizers=true"),
    ],
    "closed": [
        *("--set", f"operator.image.digest={DIGEST},operator.replicas=1"),
        *("--set", f"router.image.repository=example.com/router,router.image.digest={DIGEST}"),
        *("--set", "worker.image.tag=1.2.3,imagePullSecrets[0].name=registry"),
        *("--set", "router.callerKey.existingSecret=key,router.drainSeconds=60"),
        *("--set", "router.apiKeys.existingSecret=keys"),
        *("--set", "router.service.type=LoadBalancer,router.service.port=8000"),
        *("--set", "router.accessLog=true,router.priorityClassName=high,router.replicas=3"),
        *("--set-json", 'networkPolicy.routerFrom=[{"namespaceSelector":{}}]'),
        *("--set-json", "networkPolicy.metricsFrom=[]"),
        *("--set-json", 'router.tolerations=[{"key":"a","operator":"Exists"}]'),
        *("--set-json", 'operator.nodeSelector={"kubernetes.io/arch":"amd64"}'),
    ],
    "scaled": [
        *("--set", "operator.prometheus.url=http://prometheus.monitoring:9090"),
        *("--set", "operator.prometheus.tokenSecret=reader,operator.scaling.quietSeconds=300"),
        *("--set", "operator.webhook.existingSecret=caller"),
    ],
    "observed": [
        *("--set", "monitoring.podMonitor.enabled=true,monitoring.prometheusRule.enabled=true"),
        *("--set", "monitoring.rulesConfigMap.enabled=true"),
        *("--set", "monitoring.podMonitor.labels.release=kube-prometheus-stack"),
        *("--set", "monitoring.prometheusRule.labels.release=kube-prometheus-stack"),
        *("--set-json", f"gatewayApi.inferencePools={json.dumps(GATEWAY_POOLS)}"),
        *("--set-json", f"keda.scaledObjects={json.dumps(SCALED)}"),
    ],
}
KEYS_FILE = "/etc/splitpool/api-keys/keys.json"
# Its 1,200 lines take a second to read.
NO_CRD = ("--set", "crds.install=false")
PROGRAMS = ("operator", "router")


@pytest.fixture(params=[*VALUE_SETS])
def values(request: pytest.FixtureRequest) -> list[str]:
    """Each of several sets of values."""
    return [*VALUE_SETS[request.param], *NO_CRD]


def find(objects: list[Object], kind: str, name: str) -> Object:
    (found,) = (
        each for each in objects if (each["kind"], each["metadata"]["name"]) == (kind, name)
    )
    return found


def containers(objects: list[Object]) -> Iterator[tuple[Object, Object]]:
    """Pod spec and container of every program."""
    for each in objects:
        if each["kind"] == "Deployment":
            pod = each["spec"]["template"]["spec"]
            yield from ((pod, container) for container in pod["containers"])


@pytest.mark.parametrize("name", [*VALUE_SETS])
def test_the_rendering_is_the_reviewed_one(name: str) -> None:
    text = template(*VALUE_SETS[name], *NO_CRD)

    # Made anew by every rendering without a cluster.
    text = re.sub(r"(?m)^  (key|token): \S{40,}$", r"  \1: MADE-ONCE", text)
    text = re.sub(r"(splitpool.dev/internal-token: )\S+", r"\1HASH", text)
    golden.check(f"chart-{name}.yaml", text)


@pytest.mark.parametrize("minor", ["1.30", "1.33", "1.35", "1.37"])
def test_every_kubernetes_that_the_chart_allows_takes_the_objects(
    values: list[str], minor: str
) -> None:
    for each in rendered(*values, "--kube-version", minor):
        kubernetes_validate.validate(each, minor, strict=True)


def test_the_crd_of_the_chart_is_the_projects() -> None:
    copy = CHART / "files" / "inferencepools.yaml"
    assert copy.read_text() == crds.FILE.read_text(), "run: make crd"

    crd = find(rendered(), "CustomResourceDefinition", "inferencepools.splitpool.dev")

    assert crd["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}
    assert {key: crd[key] for key in crd if key != "metadata"} == {
        key: value for key, value in crds.own().items() if key != "metadata"
    }


def test_a_crd_can_be_left_to_others_or_given_up_with_the_release() -> None:
    kinds = {each["kind"] for each in rendered(*NO_CRD)}
    assert "CustomResourceDefinition" not in kinds

    given_up = rendered("--set", "crds.keep=false,internalToken.create=true")
    annotations = [each["metadata"].get("annotations", {}) for each in given_up]
    assert not any("helm.sh/resource-policy" in each for each in annotations)


def test_every_container_is_locked_down(values: list[str]) -> None:
    found = [*containers(rendered(*values))]
    assert len(found) == 2
    for pod, container in found:
        assert pod["securityContext"] == {
            "runAsNonRoot": True,
            "runAsUser": 10001,
            "runAsGroup": 10001,
            "seccompProfile": {"type": "RuntimeDefault"},
        }
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert {"livenessProbe", "readinessProbe", "startupProbe"} < {*container}
        assert container["resources"]["limits"]["memory"]
        assert not container["image"].endswith(":latest")


def test_tokens_are_mounted_only_where_the_pod_says_so() -> None:
    objects = rendered(*NO_CRD)
    accounts = [each for each in objects if each["kind"] == "ServiceAccount"]
    assert len(accounts) == 2
    assert not any(each["automountServiceAccountToken"] for each in accounts)
    assert all(pod["automountServiceAccountToken"] for pod, _ in containers(objects))


def test_the_namespaced_mode_has_no_cluster_wide_rights() -> None:
    objects = rendered(*VALUE_SETS["namespaced"], *NO_CRD)
    assert not [each for each in objects if each["kind"].startswith("ClusterRole")]
    roles = [each for each in objects if each["kind"] == "Role"]
    places = {(each["metadata"]["namespace"], each["metadata"]["name"]) for each in roles}
    assert places == {
        *((place, f"splitpool-{name}") for place in ("team-a", "team-b") for name in PROGRAMS),
        ("splitpool", "splitpool-operator-lease"),
    }
    for _, container in containers(objects):
        arguments = container["args"]
        named = [arguments[i + 1] for i, each in enumerate(arguments) if each == "--namespace"]
        assert named == ["team-a", "team-b"]


def test_no_rule_has_a_wildcard_or_reads_secrets(values: list[str]) -> None:
    for each in rendered(*values):
        for rule in each.get("rules", []):
            assert "*" not in str(rule)
            assert "secrets" not in rule["resources"]


@pytest.mark.parametrize("seconds", [0, 60, 3600])
def test_the_grace_period_covers_the_drain(seconds: int) -> None:
    objects = rendered("--set", f"router.drainSeconds={seconds}", *NO_CRD)
    pod = find(objects, "Deployment", "splitpool-router")["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    waits = container["lifecycle"]["preStop"]["sleep"]["seconds"]
    parsed = router_config.parse(container["args"], {})
    assert parsed.drain_limit == seconds
    assert pod["terminationGracePeriodSeconds"] >= waits + seconds + 5


def test_the_router_takes_its_arguments(values: list[str], tmp_path: Path) -> None:
    (args,) = (
        each["args"] for _, each in containers(rendered(*values)) if each["name"] == "router"
    )
    keys = tmp_path / "keys.json"
    keys.write_text('{"keys": []}')
    here = [str(keys) if each == KEYS_FILE else each for each in args]
    parsed = router_config.parse(here, {"SPLITPOOL_CALLER_KEY": "ab" * 32})
    assert (parsed.host, parsed.port, parsed.cluster) == ("0.0.0.0", 8080, True)


def test_api_keys_reach_whoever_needs_them_and_nobody_else() -> None:
    objects = rendered("--set", "router.apiKeys.existingSecret=keys", *NO_CRD)
    (test,) = (each for each in objects if each["kind"] == "Pod")
    (asking,) = test["spec"]["containers"]
    (variable,) = asking["env"]
    assert variable["valueFrom"]["secretKeyRef"] == {"name": "keys", "key": "probe"}
    seen = {
        f"{mount['mountPath']}/{item['path']}"
        for pod, container in containers(objects)
        for volume in pod["volumes"]
        for mount in container["volumeMounts"]
        if "secret" in volume and volume["name"] == mount["name"]
        for item in volume["secret"]["items"]
        if f"{mount['mountPath']}/{item['path']}" in container["args"]
    }
    assert seen == {KEYS_FILE, "/etc/splitpool/router-key/probe"}
    assert "keys" not in str(rendered(*NO_CRD))


def test_selectors_find_their_pods_and_no_others(values: list[str]) -> None:
    objects = rendered(*values)
    labels = {
        each["metadata"]["name"]: each["spec"]["template"]["metadata"]["labels"]
        for each in objects
        if each["kind"] == "Deployment"
    }
    selectors = [
        *(each["spec"]["selector"] for each in objects if each["kind"] == "Service"),
        *(
            each["spec"]["selector"]["matchLabels"]
            for each in objects
            if each["kind"] in {"PodDisruptionBudget", "Deployment"}
        ),
    ]
    # Where Alertmanager may call the operator has a Service.
    assert len(selectors) in {5, 6}
    for selector in selectors:
        assert len([name for name in labels if selector.items() <= labels[name].items()]) == 1


def test_the_policy_of_workers_selects_the_operators_pods_on_their_port() -> None:
    policy = find(rendered(*NO_CRD), "NetworkPolicy", "splitpool-workers")["spec"]
    workers = [
        each["spec"]["template"]
        for each in children(
            plan(*pool_files.read(pool_files.CPU), cores=1), Installation(worker_image="worker:1")
        )
        if each["kind"] == "Deployment"
    ]
    assert len(workers) == 2
    for pod in workers:
        selected = policy["podSelector"]["matchLabels"].items()
        assert selected <= pod["metadata"]["labels"].items()
        (port,) = pod["spec"]["containers"][0]["ports"]
        assert policy["ingress"][0]["ports"] == [{"port": port["containerPort"]}]


def test_a_policy_names_peers_by_the_labels_of_their_pods() -> None:
    objects = rendered(*NO_CRD)
    policy = find(objects, "NetworkPolicy", "splitpool-workers")["spec"]
    peers = [each["podSelector"]["matchLabels"] for each in policy["ingress"][0]["from"]]
    for name in PROGRAMS:
        pod = find(objects, "Deployment", f"splitpool-{name}")["spec"]["template"]
        assert [peer for peer in peers if peer.items() <= pod["metadata"]["labels"].items()]


def test_one_token_serves_all_namespaces_and_restarts_the_routers() -> None:
    objects = rendered(*VALUE_SETS["namespaced"], *NO_CRD)
    secrets = [each for each in objects if each["metadata"]["name"] == "splitpool-internal"]
    assert [each["metadata"]["namespace"] for each in secrets] == ["splitpool", "team-a", "team-b"]
    assert len({each["data"]["token"] for each in secrets}) == 1

    other = rendered(*VALUE_SETS["namespaced"], *NO_CRD)
    assert marks(objects) != marks(other)


def marks(objects: list[Object]) -> Any:
    router = find(objects, "Deployment", "splitpool-router")
    return router["spec"]["template"]["metadata"]["annotations"]


def test_the_names_follow_the_release() -> None:
    yaml = template(*NO_CRD, release="other")
    assert "name: other-splitpool-router-pods" in yaml
    assert "- other-splitpool-router-pods.splitpool.svc:8080" in yaml
    # Two releases in a namespace would else wait for each other's Lease.
    assert "- --lease-name\n            - other-splitpool-operator\n" in yaml
    assert "resourceNames: [other-splitpool-operator]" in yaml


@pytest.mark.parametrize("name", ["123", "1e3", "true"])
def test_names_that_look_like_something_else_stay_names(name: str) -> None:
    values = ["--set-string", f"scope.namespaces={{{name}}}", "--set", "scope.clusterWide=false"]
    for secret in ("operator.prometheus.tokenSecret", "operator.webhook.existingSecret"):
        values += ["--set-string", f"{secret}={name}"]
    for secret in ("router.apiKeys.existingSecret", "router.callerKey.existingSecret"):
        values += ["--set-string", f"{secret}={name}"]
    values += ["--set-string", f"operator.priorityClassName={name}"]
    yaml = template(*NO_CRD, *values, release=name, namespace=name)
    for each in YAML(typ="safe", pure=True).load_all(yaml):
        assert [*strange(each)] == [], each


def strange(value: Any, key: str = "") -> Iterator[tuple[str, Any]]:
    """What should be a string and is none, by its key."""
    named = key in {"name", "namespace", "secretName", "priorityClassName"}
    if (named or key.startswith(("app.", "kubernetes."))) and not isinstance(value, str):
        yield key, value
    if isinstance(value, dict):
        for inner, each in value.items():
            yield from strange(each, inner)
    if isinstance(value, list):
        for each in value:
            yield from strange(each, "name" if key in {"args", "command"} else "")


def test_a_release_with_dots_has_services_without() -> None:
    long = "a" * 39 + ".release"
    for release in ("my.release", long):
        yaml = template(*NO_CRD, release=release)
        names = {
            each["metadata"]["name"] for each in YAML(typ="safe", pure=True).load_all(yaml) if each
        }
        assert all(re.fullmatch(r"[a-z0-9]([-a-z0-9]{,61}[a-z0-9])?", name) for name in names)
