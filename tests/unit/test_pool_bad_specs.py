"""Every wrong declaration is refused by field, value, limit and remedy, and by nothing else."""

from typing import Any

import pytest

from splitpool_operator.declaration.problems import field
from unit.pool_files import CPU, DELETE, GPU, MIG, changed, problems

I, B = "spec.pools.interactive", "spec.pools.batch"  # noqa: E741 - the two classes
MANAGED = {"spec.autoscaling.mode": "Managed"}
SHARED = {"spec.topology": "Shared", "spec.accelerator.memory": "100Gi"}

BAD: list[tuple[dict[str, Any], dict[str, Any], str, tuple[str, ...]]] = [
    # single values
    (CPU, {"apiVersion": DELETE}, "apiVersion", ("required", "add apiVersion")),
    (CPU, {"apiVersion": "splitpool.dev/v2"}, "apiVersion", ("v2", "splitpool.dev/v1alpha1")),
    (CPU, {"kind": "Deployment"}, "kind", ("Deployment", "InferencePool")),
    (CPU, {"metadata": DELETE}, "metadata", ("required",)),
    (CPU, {"metadata.name": "Assistant"}, "metadata.name", ("'Assistant'", "lower-case")),
    (CPU, {"metadata.name": "a" * 51}, "metadata.name", ("51", "50")),
    (CPU, {"metadata.name": "a.b"}, "metadata.name", ("dashes",)),
    (CPU, {"metadata.namespace": "Team"}, "metadata.namespace", ("'Team'", "63")),
    (CPU, {"metadata.lables": {}}, "metadata.lables", ("did you mean labels?",)),
    (CPU, {"spec": DELETE}, "spec", ("required",)),
    (CPU, {"sepc": {}}, "sepc", ("did you mean spec?",)),
    (CPU, {"spec.model": DELETE}, "spec.model", ("required",)),
    (CPU, {"spec.model.name": DELETE}, "spec.model.name", ("required", "add name")),
    (CPU, {"spec.model.name": ""}, "spec.model.name", ("letter or digit",)),
    (CPU, {"spec.model.name": "two words"}, "spec.model.name", ("'two words'",)),
    (CPU, {"spec.model.name": 7}, "spec.model.name", ("7 is not a string", '"7"')),
    (CPU, {"spec.model.source": "/models/x"}, "spec.model.source", ("'/models/x'", "file:///")),
    (CPU, {"spec.model.source": "file://models"}, "spec.model.source", ("file:///path",)),
    (CPU, {"spec.model.source": "s3://b/x"}, "spec.model.source", ("s3://b/x", "pvc://")),
    (CPU, {"spec.model.source": "hf://onlyorg"}, "spec.model.source", ("hf://org/repo",)),
    (CPU, {"spec.model.source": "file:///" + "x" * 600}, "spec.model.source", ("608", "512")),
    (CPU, {"spec.model.dtype": "float16"}, "spec.model.dtype", ("bfloat16, float32", "did you")),
    (CPU, {"spec.model.quantization": "int4"}, "spec.model.quantization", ("int4", "none, int8")),
    (GPU, {"spec.model.quantization": "int8"}, "spec.model.quantization", ("int8", "cpu", "none")),
    (CPU, {"spec.model.maxModelLen": 0}, "spec.model.maxModelLen", ("0 is below", "16")),
    (CPU, {"spec.model.maxModelLen": "2048"}, "spec.model.maxModelLen", ("without quotes: 2048",)),
    (CPU, {"spec.model.maxLen": 5}, "spec.model.maxLen", ("did you mean maxModelLen?",)),
    (CPU, {"spec.accelerator.type": "tpu"}, "spec.accelerator.type", ("nvidia, amd, cpu",)),
    (CPU, {"spec.accelerator.memory": DELETE}, "spec.accelerator.memory", ("required",)),
    (CPU, {"spec.accelerator.memory": 80}, "spec.accelerator.memory", ("80", '"80Gi"')),
    (CPU, {"spec.accelerator.memory": "32GB"}, "spec.accelerator.memory", ("'GB'", '"32Gi"')),
    (CPU, {"spec.accelerator.memory": "32 Gb"}, "spec.accelerator.memory", ("32 Gb", '"32Gi"')),
    (CPU, {"spec.accelerator.memory": "lots"}, "spec.accelerator.memory", ("'lots'", "80Gi")),
    (CPU, {"spec.accelerator.memory": "2Pi"}, "spec.accelerator.memory", ("below 1Pi",)),
    (GPU, {"spec.accelerator.count": 0}, "spec.accelerator.count", ("0 is below", "1")),
    (GPU, {"spec.accelerator.count": 1.5}, "spec.accelerator.count", ("1.5", "whole number")),
    (GPU, {"spec.accelerator.count": True}, "spec.accelerator.count", ("true", "whole number")),
    (CPU, {"spec.accelerator.cores": 0}, "spec.accelerator.cores", ("0 is below",)),
    (CPU, {"spec.topology": "shared"}, "spec.topology", ("'shared'", "did you mean Shared?")),
    (GPU, {"spec.sharing.mode": "mig"}, "spec.sharing.mode", ("did you mean MIG?",)),
    (
        GPU,
        {"spec.sharing.minimumEnforcement": "Hard"},
        "spec.sharing.minimumEnforcement",
        ("Hard",),
    ),
    (CPU, {I: DELETE}, I, ("required",)),
    (CPU, {f"{B}.vram": DELETE}, f"{B}.vram", ("required", "add vram")),
    (CPU, {f"{I}.vram": "0"}, f"{I}.vram", ("0 bytes",)),
    (CPU, {f"{I}.vram": "-1Gi"}, f"{I}.vram", ("'-1Gi'", "negative")),
    (CPU, {f"{I}.vram": "0.5"}, f"{I}.vram", ("whole number",)),
    (CPU, {f"{I}.vram": "1.1Gi"}, f"{I}.vram", ("whole number", '"1126Mi"')),
    (CPU, {f"{I}.vram": ".5Gi"}, f"{I}.vram", ("'.5Gi'", '"512Mi"')),
    (CPU, {f"{I}.replicas": -1}, f"{I}.replicas", ("-1 is below", "0")),
    (CPU, {f"{I}.replicas": 257}, f"{I}.replicas", ("257 is above", "256")),
    (CPU, {f"{I}.maxbatch": 8}, f"{I}.maxbatch", ("did you mean maxBatch?",)),
    (CPU, {f"{I}.max_batch": 8}, f"{I}.max_batch", ("did you mean maxBatch?",)),
    (CPU, {f"{I}.colour": "red"}, f"{I}.colour", ("is not a field", "maxBatch")),
    (CPU, {f"{I}.maxBatch": 0}, f"{I}.maxBatch", ("0 is below",)),
    (CPU, {f"{I}.stream": "yes"}, f"{I}.stream", ("'yes'", "true or false")),
    (CPU, {f"{I}.maxLengthRatio": 0.5}, f"{I}.maxLengthRatio", ("0.5 is below", "1")),
    (CPU, {f"{I}.ttftP99Ms": 0}, f"{I}.ttftP99Ms", ("0 is below",)),
    (CPU, {f"{I}.objective": "-x"}, f"{I}.objective", ("'-x'",)),
    (GPU, {f"{I}.computePercent": 101}, f"{I}.computePercent", ("101 is above", "100")),
    (GPU, MIG | {f"{I}.migProfile": "3g"}, f"{I}.migProfile", ("'3g'", "3g.40gb")),
    (CPU, {"spec.resume.mode": False}, "spec.resume.mode", ("false", '"Off" in quotes')),
    (CPU, {"spec.resume.windowSeconds": 0}, "spec.resume.windowSeconds", ("0 is below",)),
    (CPU, {"spec.resume.bufferBytes": 4096}, "spec.resume.bufferBytes", ("4096",)),
    (CPU, {"spec.routing.defaultClass": "bulk"}, "spec.routing.defaultClass", ("bulk", "batch")),
    (CPU, {"spec.routing.forwardHeaders": "X"}, "spec.routing.forwardHeaders", ("list",)),
    (CPU, {"spec.routing.forwardHeaders": ["a b"]}, "spec.routing.forwardHeaders[0]", ("a b",)),
    (
        CPU,
        {"spec.autoscaling.prometheus": {"url": "p:9"}},
        "spec.autoscaling.prometheus.url",
        ("p:9",),
    ),
    (CPU, {"spec.pools": []}, "spec.pools", ("not a mapping",)),
    # rules between fields
    (
        CPU,
        {f"{B}.vram": "5Gi"},
        f"{B}.vram",
        ("5Gi", "4Gi", "lower vram to 4Gi", "raise accelerator.memory"),
    ),
    (
        CPU,
        {f"{B}.vram": "3584Mi"},
        "spec.pools",
        ("4608Mi", "4Gi = accelerator.memory - headroom", "raise accelerator.memory"),
    ),
    (GPU, {f"{I}.vram": "77Gi"}, f"{I}.vram", ("77Gi", "headroom 4Gi", "80Gi", "76Gi")),
    (GPU, {f"{B}.replicas": 3}, "spec.pools", ("2 x 32Gi + 3 x 40Gi", "184Gi", "152Gi", "count")),
    (
        GPU,
        {"spec.topology": "Shared", f"{I}.vram": "37Gi"},
        f"{I}.vram",
        ("37Gi", "40Gi", "Shared", "76Gi"),
    ),
    (GPU, SHARED | {f"{B}.replicas": 1}, f"{B}.replicas", ("1 != ", "2", "Split")),
    (
        GPU,
        SHARED | {f"{I}.replicas": 3, f"{B}.replicas": 3},
        "spec.pools",
        ("3 x 72Gi", "216Gi", "192Gi"),
    ),
    (GPU, {"spec.sharing.mode": "Exclusive"}, "spec.pools", ("4 GPUs > 2 GPUs", "Exclusive")),
    (GPU, MIG | {f"{B}.replicas": 3}, "spec.pools", ("18 MIG slices > 14 MIG slices", "7 slices")),
    (
        GPU,
        {"spec.sharing.mode": "MIG", f"{I}.migProfile": "3g.40gb"},
        f"{B}.migProfile",
        ("required with sharing.mode MIG",),
    ),
    (GPU, {f"{I}.migProfile": "3g.40gb"}, f"{I}.migProfile", ("needs sharing.mode MIG",)),
    (
        GPU,
        MIG | SHARED | {f"{I}.replicas": 1, f"{B}.replicas": 1},
        f"{B}.migProfile",
        ("4g.40gb", "one slice"),
    ),
    (
        GPU,
        MANAGED | {"spec.autoscaling.interactive": {"minReplicas": 5, "maxReplicas": 5}},
        "spec.autoscaling.interactive",
        ("interactive.maxReplicas", "5 x 32Gi"),
    ),
    (
        GPU,
        MANAGED
        | {
            "spec.autoscaling.interactive": {"minReplicas": 2},
            "spec.autoscaling.batch": {"minReplicas": 3, "maxReplicas": 3},
        },
        "spec.autoscaling",
        ("minReplicas of both classes", "2 x 32Gi + 3 x 40Gi"),
    ),
    (
        GPU,
        MANAGED | {"spec.autoscaling.batch": {"maxReplicas": 4}},
        "spec.autoscaling.batch",
        ("batch.maxReplicas", "1 x 32Gi + 4 x 40Gi"),
    ),
    (
        GPU,
        MANAGED | {"spec.autoscaling.interactive": {"minReplicas": 3, "maxReplicas": 2}},
        "spec.autoscaling.interactive.minReplicas",
        ("3 > maxReplicas 2",),
    ),
    (
        GPU,
        {f"{I}.computePercent": 70, f"{B}.computePercent": 40},
        f"{B}.computePercent",
        ("70", "40", "110 > 100"),
    ),
    (CPU, {f"{I}.maxBatch": 65}, f"{I}.maxBatch", ("65 > pools.batch.maxBatch 64", "lower it")),
    (CPU, {f"{I}.maxWaitMs": 301}, f"{I}.maxWaitMs", ("301 > pools.batch.maxWaitMs 300",)),
    (CPU, {f"{I}.tokenBudget": 23}, f"{I}.tokenBudget", ("23 < maxBatch 8 + 16", "to 24")),
    (CPU, {f"{B}.maxBatch": 500}, f"{B}.tokenBudget", ("512 (the default) < maxBatch 500", "516")),
    (CPU, {"spec.sharing": {"mode": "DRA"}}, "spec.sharing", ("cpu", "remove sharing")),
    (CPU, {"spec.accelerator.count": 2}, "spec.accelerator.count", ("2", "remove count")),
    # the pod
    (CPU, {"spec.podTemplate.hostIPC": True}, "spec.podTemplate.hostIPC", ("lift the quota",)),
    (CPU, {"spec.podTemplate.hostPID": True}, "spec.podTemplate.hostPID", ("lift the quota",)),
    (
        CPU,
        {"spec.podTemplate.securityContext.privileged": True},
        "spec.podTemplate.securityContext.privileged",
        ("lift the quota",),
    ),
    (
        CPU,
        {"spec.podTemplate.volumes": [{"name": "a", "hostPath": {"path": "/"}}]},
        "spec.podTemplate.volumes[0].hostPath",
        ("lift the quota", "emptyDir"),
    ),
    *(
        (
            CPU,
            {"spec.podTemplate.env": [{"name": "OK"}, {"name": name}]},
            "spec.podTemplate.env[1].name",
            (name, "lift the quota"),
        )
        for name in ("NVIDIA_VISIBLE_DEVICES", "CUDA_DISABLE_CONTROL", "LD_PRELOAD")
    ),
    (
        GPU,
        {"spec.podTemplate.resources": {"limits": {"nvidia.com/gpu": 1}}},
        "spec.podTemplate.resources.limits.nvidia.com/gpu",
        ("spec.sharing",),
    ),
    (
        CPU,
        {"spec.podTemplate.resources": {"limits": {"memory": "64Gi"}}},
        "spec.podTemplate.resources.limits.memory",
        ("hostMemory",),
    ),
    (CPU, {"spec.podTemplate.tolerations": {}}, "spec.podTemplate.tolerations", ("a list",)),
]


@pytest.mark.parametrize(
    ("base", "changes", "where", "parts"),
    BAD,
    ids=[f"{number}-{where}" for number, (_, _, where, _) in enumerate(BAD)],
)
def test_it_is_refused_by_its_field_with_the_numbers_and_a_remedy(
    base: dict[str, Any], changes: dict[str, Any], where: str, parts: tuple[str, ...]
) -> None:
    found = problems(changed(base, changes))

    (problem,) = [each for each in found if field(each.path) == where]
    for part in parts:
        assert part in problem.text
    assert problem.line is not None
    assert all(each.path for each in found)
    assert len(found) == 1 or where == I or where.startswith("spec.autoscaling")


def test_the_table_is_long_enough() -> None:
    assert len(BAD) >= 60


@pytest.mark.parametrize("base", [GPU, CPU], ids=["gpu", "cpu"])
def test_the_declarations_that_the_table_changes_are_healthy(base: dict[str, Any]) -> None:
    assert problems(base) == []
