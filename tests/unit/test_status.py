"""The status says what was observed, in conditions that kstatus understands."""

import json
from dataclasses import replace
from typing import Any

import pytest

from splitpool_operator.reporting.enforcement import STRENGTH, Vram, WorkerReport, weakest
from splitpool_operator.reporting.status import status
from splitpool_operator.reporting.view import Finding, View
from unit.pool_files import CPU, GPU, pool
from unit.pool_views import (
    LATER,
    NOW,
    OLD,
    READY,
    STARTING,
    UNSCHEDULABLE,
    conditions,
    ended,
    states,
    summary,
    view,
    waiting,
)


def test_a_pool_whose_workers_are_ready_is_ready() -> None:
    assert summary(view()) == ("True", "Serving", "False", "False")


@pytest.mark.parametrize(
    ("pods", "reason"),
    [
        ([STARTING], "WorkersStarting"),
        ([], "RollingOut"),
        ([waiting("ImagePullBackOff", "not found")], "ImagePullFailed"),
        ([waiting("InvalidImageName")], "ImagePullFailed"),
        ([waiting("CreateContainerConfigError", "secret x not found")], "ContainerCannotStart"),
        ([waiting("ContainerCreating")], "WorkersStarting"),
        ([ended(137, "OOMKilled")], "OOMKilled"),
        ([ended(1)], "CrashLoop"),
        ([ended(1, name="model")], "ModelDownloadFailed"),
        ([UNSCHEDULABLE], "Unschedulable"),
    ],
)
def test_what_may_heal_is_reconciling(pods: list[Any], reason: str) -> None:
    assert summary(view(statuses=pods)) == ("False", reason, "True", "False")


@pytest.mark.parametrize(
    ("code", "reason"), [(2, "WorkerRefuses"), (3, "QuotaTooSmall"), (4, "ModelNotFound")]
)
def test_a_worker_that_refuses_stalls_the_pool_in_its_own_words(code: int, reason: str) -> None:
    said = "human line\n" + json.dumps({"error": {"code": "x", "message": "raise vram to 900Mi"}})
    of = view(statuses=[ended(code, message=said)])
    assert summary(of) == ("False", reason, "False", "True")
    assert "raise vram to 900Mi" in conditions(of)["Stalled"]["message"]


def test_on_gpus_a_pod_without_a_place_waits_for_one() -> None:
    of = view(pool(GPU), [UNSCHEDULABLE])
    assert summary(of) == ("False", "WaitingForGPU", "True", "False")
    assert "cannot allocate all claims" in conditions(of)["Ready"]["message"]


def test_where_the_order_matters_a_waiting_pool_says_what_to_do() -> None:
    waiting_for_gpu = conditions(view(pool(GPU), [UNSCHEDULABLE]))["Ready"]["message"]
    assert "not in every order" in waiting_for_gpu
    any_order = pool(GPU, {"spec.accelerator.count": 4})
    assert "order" not in conditions(view(any_order, [UNSCHEDULABLE]))["Ready"]["message"]


def test_old_pods_that_still_serve_an_old_generation_are_not_ready() -> None:
    roles = states(pool(CPU), [READY], revision=OLD)
    of = view(roles=roles)
    assert summary(of) == ("False", "RollingOut", "True", "False")
    assert conditions(of)["InteractiveAvailable"]["status"] == "True"


def test_troubles_of_old_pods_are_no_reason() -> None:
    assert summary(view(roles=states(pool(CPU), [ended(3)], revision=OLD)))[1] == "RollingOut"


def test_a_deployment_that_its_controller_has_not_seen_yet_is_not_ready() -> None:
    assert summary(view(roles=states(pool(CPU), [READY], seen=0)))[1] == "Creating"


def test_a_refusal_stalls_or_waits_by_its_kind() -> None:
    final = Finding(reason="DoesNotFit", message="3 x 40Gi do not fit", final=True)
    assert summary(view(refusal=final)) == ("False", "DoesNotFit", "False", "True")
    passing = Finding(reason="ApplyFailed", message="forbidden")
    assert summary(view(refusal=passing)) == ("False", "ApplyFailed", "True", "False")


def test_an_unreadable_declaration_has_a_status_too() -> None:
    broken = Finding(reason="InvalidSpec", message="spec.model: missing", final=True)
    of = View(generation=4, pool=None, refusal=broken)
    assert summary(of) == ("False", "InvalidSpec", "False", "True")
    assert status(of, NOW)["observedGeneration"] == 4


def test_ready_needs_the_routers_answer() -> None:
    behind = Finding(reason="RouterBehind", message="not yet")
    assert summary(view(probe=behind)) == ("False", "RouterBehind", "True", "False")


def test_every_condition_carries_the_generation() -> None:
    assert {each["observedGeneration"] for each in conditions(view(generation=7)).values()} == {7}


def test_a_condition_keeps_its_time_until_its_status_changes() -> None:
    first = status(view(statuses=[STARTING]), NOW)
    same = conditions(view(statuses=[ended(1)], previous=first), LATER)
    assert same["Ready"]["lastTransitionTime"] == NOW
    assert same["Ready"]["reason"] == "CrashLoop"
    changed = conditions(view(previous=first), LATER)
    assert changed["Ready"]["lastTransitionTime"] == LATER


def test_the_same_observation_gives_the_same_status() -> None:
    first = status(view(), NOW)
    assert status(view(previous=first), LATER) == first


def test_a_class_at_zero_that_can_be_woken_is_available() -> None:
    woken = {"spec.pools.batch.replicas": 0, "spec.autoscaling.mode": "External"}
    batch = conditions(view(pool(CPU, woken)))["BatchAvailable"]
    assert (batch["status"], batch["reason"]) == ("True", "ScaledToZero")
    never = {"spec.pools.batch.replicas": 0}
    batch = conditions(view(pool(CPU, never)))["BatchAvailable"]
    assert (batch["status"], batch["reason"]) == ("False", "ScaledToZero")


def test_some_of_several_workers_are_a_degraded_class() -> None:
    two = pool(CPU, {"spec.pools.interactive.replicas": 2})
    available = conditions(view(two, [READY, STARTING]))["InteractiveAvailable"]
    assert (available["status"], available["reason"]) == ("True", "Degraded")


def test_with_a_shared_worker_both_classes_have_its_figures() -> None:
    shared = pool(CPU, {"spec.topology": "Shared", "spec.accelerator.memory": "8Gi"})
    pools = status(view(shared), NOW)["pools"]
    assert pools["interactive"]["summary"] == pools["batch"]["summary"] == "1/1"


def reports(fence: str, used: int = 0) -> dict[str, WorkerReport]:
    vram = Vram(quota=1024**3, weights=300 * 1024**2, kv=500 * 1024**2, used=used)
    report = WorkerReport(enforcement=fence, seen="a GPU", vram={"interactive": vram})
    return {"assistant-interactive-0": report, "assistant-batch-0": report}


@pytest.mark.parametrize(
    ("fence", "expected"),
    [("Hardware", ("True", "FenceSeen")), ("Cooperative", ("False", "CooperativeOnly"))],
)
def test_enforcement_is_what_workers_have_seen(fence: str, expected: tuple[str, str]) -> None:
    of = view(reports=reports(fence))
    found = conditions(of)["QuotaEnforced"]
    assert (found["status"], found["reason"]) == expected
    assert f"{fence} (a GPU)" in found["message"]
    assert status(of, NOW)["enforcement"] == fence
    assert summary(of)[0] == "True"


def test_without_a_report_nothing_is_claimed() -> None:
    of = view(reports={"assistant-interactive-0": reports("Driver")["assistant-interactive-0"]})
    assert conditions(of)["QuotaEnforced"]["status"] == "Unknown"
    assert "enforcement" not in status(of, NOW)


def test_below_the_demanded_fence_a_pool_is_stalled() -> None:
    strict = pool(GPU, {"spec.sharing.minimumEnforcement": "Driver"})
    of = view(strict, [READY, READY])
    weak = reports("Cooperative")
    all_pods = {pod.uid: weak["assistant-batch-0"] for role in of.roles for pod in role.pods}
    of = view(strict, [READY, READY], reports=all_pods)
    assert summary(of) == ("False", "EnforcementTooWeak", "False", "True")
    found = conditions(of)
    assert found["QuotaEnforced"]["reason"] == "EnforcementTooWeak"
    for words in ("Cooperative (a GPU)", "minimumEnforcement is Driver", "lower it"):
        assert words in found["Stalled"]["message"]


def test_a_pool_that_demands_a_fence_waits_until_every_worker_has_named_one() -> None:
    strict = pool(GPU, {"spec.sharing.minimumEnforcement": "Driver"})
    of = view(strict, [READY, READY])
    known = reports("Driver")["assistant-batch-0"]
    answered = {pod.uid: known for role in of.roles for pod in role.pods}
    late = dict(list(answered.items())[1:])
    assert summary(replace(of, reports=late)) == ("False", "NotReported", "True", "False")
    assert summary(replace(of, reports=answered))[0] == "True"


def test_of_several_fences_the_weakest_counts_and_one_that_nobody_knows_is_cooperative() -> None:
    def worker(fence: str, seen: str = "") -> WorkerReport:
        return WorkerReport(enforcement=fence, seen=seen)

    assert str(weakest([worker("Hardware"), worker("Wishful")])) == "Cooperative"
    two = [worker("MPS", "a"), worker("MPS", "b"), worker("Driver", "c")]
    assert str(weakest(two)) == str(weakest(two[::-1])) == "MPS (b)"
    assert weakest([]) is None
    assert [str(weakest([worker(each)])) for each in STRENGTH] == [*STRENGTH]


def test_what_moves_with_traffic_is_written_in_steps() -> None:
    def used(count: int) -> Any:
        shown = status(view(reports=reports("Cgroup", count)), NOW)
        return shown["pools"]["interactive"]["vram"]["used"]

    assert used(0) == "0"
    assert used(1) == used(50 * 1024**2)
    assert used(1024**3) == "1Gi"


def test_what_autoscaling_wrote_stays() -> None:
    kept = {"lastScaleTime": NOW, "lastScaleReason": "queue"}
    shown = status(view(previous={"pools": {"batch": kept}}), NOW)["pools"]
    assert kept.items() <= shown["batch"].items()
    assert "lastScaleTime" not in shown["interactive"]
