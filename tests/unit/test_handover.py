"""Replicas belong to the declaration, to what runs, or to another autoscaler."""

from typing import Any

import pytest

from splitpool_operator.cluster.handover import gives_up_replicas, replicas
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
    assert replicas(*role(mode), live(7), 3) == expected
