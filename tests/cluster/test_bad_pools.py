"""The API server refuses what a file's reader refuses, for the same field, and takes the rest."""

from typing import Any

import pytest

from cluster.api import Api, ApiError
from cluster.pools import filled, plain, read_by_the_operator, refusal, taken_from_a_file
from unit.pool_files import CPU, DELETE, GPU, MIG, changed, pool
from unit.test_pool_bad_specs import BAD, MANAGED, SHARED, I

# What is wrong with the object's address is not told by a field.
SAID_OTHERWISE = {"apiVersion": "version", "metadata.namespace": "namespace"}
HEALTHY: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "gpu": (GPU, {}),
    "cpu": (CPU, {}),
    "amd": (GPU, {"spec.accelerator.type": "amd"}),
    "type by default": (GPU, {"spec.accelerator.type": DELETE, "spec.sharing": DELETE}),
    "shared": (GPU, SHARED),
    "mig": (GPU, MIG),
    "mig, shared": (
        GPU,
        SHARED | {"spec.sharing.mode": "MIG", f"{I}.migProfile": "7g.80gb"},
    ),
    "exclusive": (GPU, {"spec.sharing.mode": "Exclusive", "spec.accelerator.count": 4}),
    "managed": (GPU, MANAGED),
    "managed within bounds": (
        GPU,
        MANAGED
        | {
            "spec.autoscaling.interactive": {"minReplicas": 1, "maxReplicas": 3},
            "spec.autoscaling.batch": {"minReplicas": 0, "maxReplicas": 2},
            "spec.autoscaling.prometheus": {"url": "http://prometheus.monitoring:9090"},
        },
    ),
    "decimals": (CPU, {"spec.pools.interactive.vram": "1.5Gi", "spec.accelerator.memory": "3.5Gi"}),
    "no headroom": (GPU, {"spec.accelerator.headroom": "0", "spec.pools.interactive.vram": "40Gi"}),
    "no replicas": (CPU, {"spec.pools.batch.replicas": 0, "spec.pools.batch.vram": "4Gi"}),
    "ratio of a whole number": (CPU, {"spec.pools.batch.maxLengthRatio": 8}),
    "a pod with additions": (
        CPU,
        {
            "spec.podTemplate": {
                "resources": {"requests": {"cpu": 1, "memory": "1Gi"}, "limits": {"cpu": "2"}},
                "env": [{"name": "HF_HOME", "value": "/models"}],
                "volumes": [{"name": "models", "persistentVolumeClaim": {"claimName": "models"}}],
                "volumeMounts": [{"name": "models", "mountPath": "/models"}],
                "tolerations": [{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}],
                "nodeSelector": {"disk": "fast"},
            }
        },
    ),
}


@pytest.mark.parametrize(
    ("base", "changes", "where"),
    [row[:3] for row in BAD],
    ids=[f"{number}-{row[2]}" for number, row in enumerate(BAD)],
)
def test_it_is_refused_for_the_same_field(
    admin: Api, base: dict[str, Any], changes: dict[str, Any], where: str
) -> None:
    error = refusal(admin, changed(base, changes))

    assert error is not None
    assert error.code in (400, 422)
    assert names(error, where), f"{where} is not named: {error}"


@pytest.mark.parametrize("name", HEALTHY)
def test_healthy_ones_are_taken_by_both_and_have_the_same_defaults(admin: Api, name: str) -> None:
    declared = changed(*HEALTHY[name])
    pool(declared)

    stored = filled(admin, declared)

    assert plain(stored["spec"]) == plain(read_by_the_operator(declared))


WHOLE = [
    "1.125Gi",
    "1.50Gi",
    "0.001k",
    "1.5e1",
    "1.25E2",
    "1.001e3",
    "4.0",
    "4.00e0",
    "7.000Ki",
    "1023Ti",
]
FRACTIONS = ["1.1Gi", "0.001Ti", "0.5", "1.05e1", "1.001e2", "1.5e0", "100000000000000.01"]


@pytest.mark.parametrize("amount", WHOLE + FRACTIONS)
def test_bytes_are_whole_numbers_to_both(admin: Api, amount: str) -> None:
    declared = changed(CPU, {f"{I}.hostMemory": amount})

    assert (refusal(admin, declared) is None) == (amount in WHOLE)
    assert taken_from_a_file(declared) == (amount in WHOLE)


def test_the_largest_declaration_costs_no_more_than_the_rules_may(admin: Api) -> None:
    many = {
        "env": [{"name": f"E{n:0>100}", "value": "v" * 1024} for n in range(64)],
        "volumes": [{"name": f"v{n}", "emptyDir": {}} for n in range(32)],
        "resources": {"limits": {f"example.com/{n:0>40}": 1 for n in range(16)}},
        "tolerations": [{"key": f"k{n}"} for n in range(32)],
    }

    assert refusal(admin, changed(CPU, {"spec.podTemplate": many})) is None


def names(error: ApiError, where: str) -> bool:
    """Whether the refusal is about the field, or about what it is a part of."""
    fields = {problem.field for problem in error.problems}
    return SAID_OTHERWISE.get(where, where) in str(error) or any(
        where.startswith(field) for field in fields if field.count(".") >= 1
    )
