"""Small pure parts of the operator: events, refusals before planning, health."""

from typing import Any

import pytest

from splitpool_operator.cluster import health, planned
from splitpool_operator.cluster.diff import owner
from splitpool_operator.cluster.events import events
from splitpool_operator.cluster.kinds import CHILDREN, DEPLOYMENT, POOL, of
from splitpool_operator.cluster.planned import Rejected
from splitpool_operator.cluster.pool_series import PoolSeries
from splitpool_operator.cluster.series import Series
from splitpool_operator.cluster.store import Store
from splitpool_operator.planning.plan import plan
from splitpool_operator.rendering.installation import Installation
from splitpool_operator.rendering.manifests import children
from unit.pool_files import CPU, GPU, changed, pool

NOW = "2026-11-29T18:00:00Z"
INSTALLATION = Installation(worker_image="worker:1")


def raw(changes: dict[str, Any], base: dict[str, Any] = CPU) -> dict[str, Any]:
    """A pool as the API server has it, with fields of Kubernetes and of later versions."""
    facts = {
        "metadata.uid": "u",
        "metadata.namespace": "ns",
        "metadata.creationTimestamp": NOW,
        "metadata.laterField": 1,
        "spec.laterField": {"a": 1},
    }
    return changed(base, facts | changes)


def told(before: list[Any], after: list[Any]) -> list[tuple[str, str]]:
    made = events(raw({}), before, after, NOW)
    return [(each["type"], each["reason"]) for each in made]


def condition(kind: str, status: str, reason: str) -> dict[str, str]:
    return {"type": kind, "status": status, "reason": reason, "message": "m"}


def test_only_transitions_are_told() -> None:
    ready = condition("Ready", "True", "Serving")
    waiting = condition("Ready", "False", "WorkersStarting")
    stalled = condition("Stalled", "True", "DoesNotFit")
    calm = condition("Stalled", "False", "NotStalled")
    assert told([], [ready, calm]) == [("Normal", "Serving")]
    assert told([ready, calm], [ready, calm]) == []
    assert told([waiting], [ready]) == [("Normal", "Serving")]
    assert told([calm], [stalled]) == [("Warning", "DoesNotFit")]
    assert told([stalled], [calm]) == []
    unfit = condition("Ready", "False", "DoesNotFit")
    assert told([ready, calm], [unfit, stalled]) == [("Warning", "DoesNotFit")]
    assert told([waiting], [condition("Ready", "False", "OOMKilled")]) == [("Warning", "OOMKilled")]
    assert told([], [condition("BatchAvailable", "True", "Available")]) == []


def test_the_steps_of_a_start_or_a_rollout_are_told_of_once() -> None:
    ready, creating, rolling, starting = (
        condition("Ready", status, reason)
        for status, reason in (
            ("True", "Serving"),
            ("False", "Creating"),
            ("False", "RollingOut"),
            ("False", "WorkersStarting"),
        )
    )
    assert told([], [creating]) == [("Normal", "Creating")]
    assert told([creating], [rolling]) == told([rolling], [starting]) == []
    assert told([starting], [ready]) == [("Normal", "Serving")]
    assert told([ready], [rolling]) == [("Normal", "RollingOut")]


def test_a_pool_with_fields_of_a_later_version_is_read() -> None:
    assert planned.read(raw({})).key == ("ns", "assistant")


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"spec.model.dtype": "int4"}, "spec.model.dtype"),
        ({"spec.pools.interactive.vram": "900Gi"}, "spec.pools.interactive.vram"),
    ],
)
def test_what_the_api_server_let_through_by_mistake_is_refused(
    changes: dict[str, Any], named: str
) -> None:
    with pytest.raises(Rejected, match=named) as refused:
        planned.read(raw(changes))
    assert refused.value.finding.reason == "InvalidSpec"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        (
            {
                "spec.accelerator.count": 2,
                "spec.pools.interactive": {"vram": "40Gi", "replicas": 3},
                "spec.pools.batch": {"vram": "8Gi", "replicas": 1},
            },
            "DoesNotFit",
        ),
        ({"spec.accelerator.type": "amd", "spec.sharing.mode": "KAI"}, "SharingUnsupported"),
    ],
)
def test_what_cannot_be_planned_is_refused_with_its_reason(
    changes: dict[str, Any], reason: str
) -> None:
    of_changes = planned.read(raw(changes, GPU))
    with pytest.raises(Rejected) as refused:
        planned.planned(of_changes, INSTALLATION, Store())
    assert refused.value.finding.reason == reason


def test_of_two_pools_with_one_model_the_older_serves_it() -> None:
    older, newer = raw({}), raw({"metadata.name": "b", "metadata.uid": "v"})
    newer["metadata"]["creationTimestamp"] = "2026-11-29T18:00:01Z"
    both = [older, newer]
    planned.check_name(older, planned.read(older), both)
    with pytest.raises(Rejected, match="ns/assistant") as refused:
        planned.check_name(newer, planned.read(newer), both)
    assert refused.value.finding.reason == "ModelNameConflict"


def test_every_child_is_of_a_kind_that_is_watched_and_pruned() -> None:
    made = children(plan(pool(GPU), cores=1), INSTALLATION)
    assert {of(each) for each in made} == {*CHILDREN}


def test_addresses_of_the_api_are_those_of_kubernetes() -> None:
    assert DEPLOYMENT.path("ns", "d") == "/apis/apps/v1/namespaces/ns/deployments/d"
    assert POOL.path(None) == "/apis/splitpool.dev/v1alpha1/inferencepools"


def test_a_standstill_and_missed_listings_are_unhealthy() -> None:
    assert health.complaint(10, 100, 300) is None
    assert "none was done for 301 s" in str(health.complaint(301, 0, 300))
    assert "listing" in str(health.complaint(0, 901, 300))


def test_an_owner_is_named_by_its_controller_or_by_who_wrote_first() -> None:
    controlled = {"controller": True, "kind": "ReplicaSet", "name": "web-1", "uid": "u"}
    assert owner({"metadata": {"ownerReferences": [controlled]}}) == "ReplicaSet web-1"
    wrote = [{"manager": "kubectl", "time": "2026-02"}, {"manager": "helm", "time": "2026-01"}]
    assert "first written by helm" in owner({"metadata": {"managedFields": wrote}})
    assert "an unknown client" in owner({"metadata": {}})


def test_the_operators_series_say_what_it_did() -> None:
    series = Series(lambda: 3, PoolSeries(Store()))
    series.reconciled("done", 0.03)
    series.reconciled("failed", 1.5)
    series.wrote("patch", "deployments")
    lines = series.text().decode().splitlines()
    assert 'splitpool_operator_reconcile_total{result="failed"} 1.0' in lines
    assert 'splitpool_operator_reconcile_seconds_bucket{le="0.05"} 1.0' in lines
    assert 'splitpool_operator_api_writes_total{resource="deployments",verb="patch"} 1.0' in lines
    assert "splitpool_operator_due_pools 3.0" in lines
