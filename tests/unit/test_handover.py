"""Replicas belong to the declaration, to what runs, or to another autoscaler."""

from typing import Any

import pytest

from splitpool_operator.cluster.handover import gives_up_replicas, remembered, replicas
from splitpool_operator.planning.plan import plan
from splitpool_operator.rendering.roles import Role, roles
from unit.pool_files import CPU, pool


def role(mode: str) -> tuple[Any, Role]:
    of = pool(CPU, {"spec.autoscaling.mode": mode})
    return of.spec, roles(plan(of, cores=1))[0]


def live(count: int, *, owned: bool = True) -> dict[str, Any]:
    manager = "splitpool-operator" if owned else "keda"
    entry = {"manager": manager, "fieldsV1": {"f:spec": {"f:replicas": {}}}}
    return {"metadata": {"managedFields": [entry]}, "spec": {"replicas": count}}


@pytest.mark.parametrize(("mode", "expected"), [("Off", 1), ("Managed", 7), ("External", None)])
def test_what_runs_counts_where_something_scales(mode: str, expected: int | None) -> None:
    assert replicas(*role(mode), live(7)) == expected


@pytest.mark.parametrize("mode", ["Off", "Managed", "External"])
def test_a_new_deployment_starts_as_declared(mode: str) -> None:
    assert replicas(*role(mode), None) == 1


@pytest.mark.parametrize(("mode", "expected"), [("Off", 1), ("Managed", 3), ("External", 1)])
def test_a_deployment_that_is_made_again_has_what_autoscaling_had_decided(
    mode: str, expected: int
) -> None:
    assert replicas(*role(mode), None, last=3) == expected


@pytest.mark.parametrize(
    ("interactive", "batch", "expected"),
    [
        (3, 0, {"interactive": 3, "batch": 0}),
        (0, 9, {"interactive": 1, "batch": 1}),
        (9, 0, {"interactive": 4, "batch": 0}),
        # 4Gi hold three workers of 1Gi beside one of batch.
        (4, 1, {}),
        (None, 1, {}),
    ],
)
def test_what_the_status_remembers_is_within_the_bounds_and_the_budget(
    interactive: int | None, batch: int, expected: dict[str, int]
) -> None:
    scaling = {"interactive": {"maxReplicas": 4}, "batch": {"maxReplicas": 1}}
    quotas = {f"spec.pools.{name}.vram": "1Gi" for name in ("interactive", "batch")}
    of = pool(CPU, quotas | {"spec.autoscaling": {"mode": "Managed"} | scaling})
    counts = {"interactive": interactive, "batch": batch}
    past = {name: {"desiredReplicas": n} for name, n in counts.items() if n is not None}

    assert remembered(of.spec, {"pools": past}) == expected


def test_a_pool_of_one_kind_of_worker_remembers_them_as_shared() -> None:
    of = pool(CPU, {"spec.topology": "Shared", "spec.autoscaling": {"mode": "Managed"}})

    assert remembered(of.spec, {"pools": {"interactive": {"desiredReplicas": 1}}}) == {"shared": 1}
    assert remembered(of.spec, {}) == {}


def test_a_field_is_handed_over_only_by_its_owner_and_only_when_it_is_given_up() -> None:
    without: dict[str, Any] = {"kind": "Deployment", "spec": {}}
    declared: dict[str, Any] = {"kind": "Deployment", "spec": {"replicas": 1}}
    assert gives_up_replicas(live(7), without)
    assert not gives_up_replicas(live(7), declared)
    assert not gives_up_replicas(live(7, owned=False), without)
    assert not gives_up_replicas(None, without)
    assert not gives_up_replicas(live(7), {"kind": "Service", "spec": {}})


@pytest.mark.parametrize(("mode", "expected"), [("Off", 1), ("Managed", 3), ("External", None)])
def test_what_autoscaling_wants_counts_where_it_manages(mode: str, expected: int | None) -> None:
    assert replicas(*role(mode), live(7), wanted=3) == expected
