"""What the control law sees of objects, and what the status, conditions and events tell of it."""

from dataclasses import replace
from typing import Any

import pytest

from splitpool_operator.autoscaling.law import decide
from splitpool_operator.autoscaling.state import Limits, Outgrown, Pace, Scene
from splitpool_operator.cluster.events import events, scalings
from splitpool_operator.cluster.scene import Measured, scene
from splitpool_operator.declaration.pool import InferencePool
from splitpool_operator.planning.quota import batch_room
from splitpool_operator.reporting.status import status
from splitpool_operator.reporting.view import Scaling
from unit.pool_files import CPU, GPU, changed, pool
from unit.pool_views import LATER, NOW, READY, STARTING, UNSCHEDULABLE, view
from unit.scaling_scenes import CALM, LATE

AT = 1764439200.0  # 2025-11-29T18:00:00Z
MANAGED = {
    "spec.autoscaling": {
        "mode": "Managed",
        "interactive": {"minReplicas": 1, "maxReplicas": 4},
        "batch": {"minReplicas": 0, "maxReplicas": 2, "backlogSeconds": 300},
    }
}


def live(replicas: int, written: str = "2025-11-29T17:50:00Z") -> dict[str, Any]:
    owners = [
        {"manager": "splitpool-operator", "time": written},
        {"manager": "splitpool-operator", "time": "2025-11-29T17:00:00Z"},
        {"manager": "kubelet", "time": "2025-11-29T17:59:59Z"},
    ]
    return {"metadata": {"managedFields": owners}, "spec": {"replicas": replicas}}


def worker(role: str, conditions: dict[str, str], **metadata: Any) -> dict[str, Any]:
    made = {"creationTimestamp": "2025-11-29T17:00:00Z", "labels": {"splitpool.dev/class": role}}
    ready_at = "2025-11-29T17:00:45Z"
    listed = [
        {"type": kind, "status": value, "lastTransitionTime": ready_at}
        for kind, value in conditions.items()
    ]
    return {"metadata": made | metadata, "status": {"conditions": listed}}


def seen(
    of: InferencePool,
    past: dict[str, Any] | None = None,
    pods: list[Any] | None = None,
    measured: Measured | None = None,
) -> Scene:
    deployments = {"interactive": live(2), "batch": live(1)}
    made = scene(of, past or {}, deployments, pods or [], measured or Measured(), AT)
    assert made is not None
    return made


def test_a_scene_has_bounds_replicas_and_the_room_on_the_gpus() -> None:
    of = seen(pool(GPU, MANAGED))
    assert of.interactive.limits == Limits(low=1, high=4)
    assert (of.interactive.replicas, of.interactive.slots, of.interactive.target) == (2, 8, 0.5)
    assert of.batch is not None
    assert (of.batch.replicas, of.batch.deadline, of.batch.target) == (1, 300, None)
    assert of.room == (2, 2, 2, 1, 0)


def test_room_is_minus_one_for_more_than_fit_at_all() -> None:
    assert batch_room(pool(GPU, MANAGED).spec, 6) == (2, 2, 2, 1, 0, -1, -1)


def test_a_scene_counts_pods_and_measures_their_start() -> None:
    pods = [
        worker("interactive", {"Ready": "True"}),
        worker("interactive", {"Ready": "False", "PodScheduled": "False"}),
        worker("interactive", {"Ready": "True"}, deletionTimestamp=NOW),
        worker("batch", {"Ready": "True"}),
    ]
    now = seen(pool(GPU, MANAGED), pods=pods).interactive
    assert (now.ready, now.unplaced, now.start) == (1, 1, 45)


def test_a_scene_remembers_by_the_status_and_the_deployment() -> None:
    past = {
        "lastScaleTime": "2025-11-29T17:58:00Z",
        "outgrown": {"replicas": 1, "requestsPerSecond": "2.5"},
    }
    of = seen(pool(GPU, MANAGED), {"pools": {"interactive": past}})
    assert (of.interactive.scaled, of.interactive.written) == (120, 600)
    assert of.interactive.outgrown == Outgrown(replicas=1, rate=2.5)
    assert of.batch is not None
    assert (of.batch.scaled, of.batch.outgrown) == (None, None)
    ahead = {"pools": {"interactive": {"lastScaleTime": "2025-11-29T18:00:09Z"}}}
    assert seen(pool(GPU, MANAGED), ahead).interactive.scaled == 0


def test_a_scene_needs_every_deployment() -> None:
    assert scene(pool(GPU, MANAGED), {}, {"batch": live(1)}, [], Measured(), AT) is None


def test_shared_workers_are_scaled_as_one() -> None:
    shared = pool(CPU, MANAGED | {"spec.topology": "Shared", "spec.accelerator.memory": "16Gi"})
    made = scene(shared, {}, {"shared": live(2)}, [], Measured(), AT)
    assert made is not None
    assert (made.batch, made.interactive.replicas) == (None, 2)


def scaled(statuses: list[Any] | None = None, **measured: Any) -> Any:
    """The status after a decision on these signals, interactive having two workers."""
    of = pool(GPU, MANAGED)
    ready = worker("interactive", {"Ready": "True"})
    made = seen(of, pods=[ready, ready], measured=Measured(silence="no answer", **measured))
    scaling = Scaling(
        ttft={"interactive": 240}, window=120, scene=made, decision=decide(made, Pace())
    )
    return view(of, statuses or [READY, READY], scaling=scaling)


def autoscaling(of: Any) -> tuple[str, str, str]:
    conditions = {each["type"]: each for each in status(of, NOW)["conditions"]}
    mine = conditions["AutoscalingActive"]
    return mine["status"], mine["reason"], mine["message"]


def test_a_change_stands_in_the_status_with_its_time_and_reason() -> None:
    late = replace(LATE, waiting=2)
    of = scaled(signals={"interactive": late, "batch": CALM})
    mine = status(of, NOW)["pools"]["interactive"]
    assert mine["lastScaleTime"] == NOW
    assert mine["lastScaleReason"].startswith("ScaledOut, 2 to 3: SplitpoolTTFTP99High fires")
    assert mine["outgrown"] == {"replicas": 2, "requestsPerSecond": "2"}
    assert (mine["ttftP99Ms"], mine["ttftP99"], mine["ttftWindowSeconds"]) == (240, "240ms", 120)
    assert autoscaling(of)[:2] == ("True", "ScaledOut")
    event, _ = scalings(
        changed(GPU, {"metadata.uid": "u", "metadata.namespace": "n"}), of.scaling, NOW
    )
    assert (event["type"], event["reason"]) == ("Normal", "ScaledOut")
    assert event["message"].startswith("interactive: 2 to 3, SplitpoolTTFTP99High fires")


def test_what_was_written_stays_until_there_is_something_new() -> None:
    first = status(scaled(signals={"interactive": LATE}), NOW)
    later = status(view(pool(GPU, MANAGED), [READY, READY], previous=first), LATER)
    for name in ("lastScaleTime", "lastScaleReason", "outgrown", "ttftP99Ms"):
        assert later["pools"]["interactive"][name] == first["pools"]["interactive"][name]


def test_without_signals_the_condition_says_why_and_an_event_once() -> None:
    of = scaled()
    assert autoscaling(of)[:2] == ("False", "NoSignals")
    assert "interactive: no answer, so replicas stay" in autoscaling(of)[2]
    raw = changed(GPU, {"metadata.uid": "u", "metadata.namespace": "n"})
    after = status(of, NOW)["conditions"]
    told = [each["reason"] for each in events(raw, [], after, NOW)]
    assert "NoSignals" in told
    assert list(events(raw, after, after, NOW)) == []


def test_the_worse_of_both_classes_is_the_reason() -> None:
    assert autoscaling(scaled(signals={"interactive": LATE}))[1] == "NoSignals"
    slow = replace(LATE, queue=0.1, service=2.0)
    of = scaled(signals={"interactive": slow, "batch": CALM})
    assert autoscaling(of)[:2] == ("False", "MoreReplicasDoNotHelp")


def test_before_there_are_workers_nothing_is_decided() -> None:
    assert autoscaling(view(pool(GPU, MANAGED), []))[:2] == ("False", "WorkersStarting")


@pytest.mark.parametrize("added", [STARTING, UNSCHEDULABLE])
def test_a_worker_that_autoscaling_adds_and_that_is_not_there_yet_leaves_the_pool_ready(
    added: Any,
) -> None:
    def ready(changes: dict[str, Any]) -> str:
        found = {
            each["type"]: each
            for each in status(view(pool(GPU, changes), [READY, added]), NOW)["conditions"]
        }
        return str(found["Ready"]["status"])

    assert ready(MANAGED) == "True"
    assert ready({}) == "False"
    both = {"mode": "Managed", "interactive": {"minReplicas": 2}, "batch": {"minReplicas": 1}}
    assert ready({"spec.autoscaling": both}) == "False"
