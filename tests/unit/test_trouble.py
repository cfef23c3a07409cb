"""Why a worker does not run: cause and remedy, from what schedulers and kubelets really say."""

from typing import Any

import pytest

from unit.pool_files import CPU, GPU, pool
from unit.pool_views import STARTING, conditions, ended, states, summary, unplaced, view, waiting

NO_MEMORY = "0/2 nodes are available: 2 Insufficient memory. preemption: 0/2 nodes are available"
PULLING = 'failed to pull and unpack image "docker.io/library/w:1": not found'
RPC = f"rpc error: code = NotFound desc = {PULLING}"


def told(pods: list[Any], base: dict[str, Any] = CPU, **more: Any) -> tuple[str, str]:
    """The reason and the sentence of Ready."""
    ready = conditions(view(pool(base, more.pop("changes", None)), pods, **more))["Ready"]
    return ready["reason"], ready["message"]


@pytest.mark.parametrize(
    ("said", "reason", "remedy"),
    [
        (NO_MEMORY, "Unschedulable", "add a node, or lower replicas, vram"),
        ("0/1 nodes are available: 1 Insufficient cpu.", "Unschedulable", "add a node"),
        ("0/1 nodes are available: 1 Too many pods.", "Unschedulable", "add a node"),
        (
            "0/1 nodes are available: 1 node(s) had untolerated taint(s).",
            "Unschedulable",
            "podTemplate.tolerations",
        ),
        (
            "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector.",
            "Unschedulable",
            "podTemplate.nodeSelector",
        ),
        (
            "0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims.",
            "Unschedulable",
            "kubectl describe pvc",
        ),
        (
            '0/1 nodes are available: persistentvolumeclaim "extra" not found.',
            "Unschedulable",
            "podTemplate.volumes",
        ),
        ("no nodes available to schedule pods", "Unschedulable", "add a node"),
    ],
)
def test_a_pod_without_a_place_says_what_would_help(said: str, reason: str, remedy: str) -> None:
    found, message = told([unplaced(said)])
    assert found == reason
    assert remedy in message


def test_what_the_scheduler_thinks_of_preemption_is_left_out() -> None:
    assert "preemption" not in told([unplaced(NO_MEMORY)])[1]


def test_a_model_in_a_claim_that_does_not_exist_is_a_model_that_is_not_found() -> None:
    said = '0/1 nodes are available: persistentvolumeclaim "models" not found.'
    reason, message = told([unplaced(said)], GPU)
    assert reason == "ModelNotFound"
    assert "spec.model.source" in message
    assert "pvc://models/smollm2" in message


@pytest.mark.parametrize(
    ("said", "reason", "remedy"),
    [
        ("0/1 nodes are available: 1 Insufficient nvidia.com/gpu.", "WaitingForGPU", "free a GPU"),
        (
            "0/2 nodes are available: 1 Insufficient nvidia.com/gpu, 1 node(s) had untolerated "
            "taint(s).",
            "WaitingForGPU",
            "podTemplate.tolerations",
        ),
        (
            "0/1 nodes are available: request gpu: device class gpu.nvidia.com does not exist.",
            "WaitingForGPU",
            "DRA driver",
        ),
        ("a sentence that only another scheduler says", "WaitingForGPU", "free a GPU"),
        ("0/1 nodes are available: 1 Insufficient memory.", "Unschedulable", "add a node"),
        ("0/1 nodes are available: 1 node(s) had untolerated taint(s).", "Unschedulable", "toler"),
    ],
)
def test_a_gpu_pool_waits_for_a_gpu_unless_something_else_is_missing(
    said: str, reason: str, remedy: str
) -> None:
    exclusive = {"spec.accelerator.count": 4}
    found, message = told([unplaced(said)], GPU, changes=exclusive)
    assert found == reason
    assert remedy in message


def test_a_gated_pod_says_so() -> None:
    said = "Scheduling is blocked due to non-empty scheduling gates"
    assert told([unplaced(said, "SchedulingGated")])[0] == "Unschedulable"


def test_the_two_states_of_an_image_that_cannot_be_pulled_say_the_same() -> None:
    first = told([waiting("ErrImagePull", RPC)])
    then = told([waiting("ImagePullBackOff", f'Back-off pulling image "w:1": ErrImagePull: {RPC}')])
    assert first == then
    reason, message = then
    assert reason == "ImagePullFailed"
    assert f"image w:1 cannot be pulled: {PULLING}; correct" in message


def test_a_model_that_comes_as_an_image_is_named_where_it_cannot_be_pulled() -> None:
    said = 'Back-off pulling image "models/none:1": not found'
    assert "image models/none:1 cannot be pulled" in told([waiting("ImagePullBackOff", said)])[1]


@pytest.mark.parametrize(
    "pod",
    [
        waiting("RunContainerError", 'exec: "python": not found'),
        ended(128, "StartError", 'exec: "python": not found'),
    ],
)
def test_a_program_that_is_not_there_says_so_before_and_after_it_was_tried(pod: Any) -> None:
    reason, message = told([pod])
    assert reason == "ContainerCannotStart"
    assert 'worker cannot start: exec: "python": not found' in message


def test_a_missing_secret_is_named_with_what_to_do() -> None:
    reason, message = told([waiting("CreateContainerConfigError", 'secret "x" not found')])
    assert reason == "ContainerCannotStart"
    assert 'secret "x" not found; create what is missing' in message.replace("  ", " ")


def test_a_download_that_fails_says_what_it_said() -> None:
    state = ended(1, message="Traceback\nRepositoryNotFoundError: 404", name="model")
    init = STARTING | {"initContainerStatuses": state["containerStatuses"]}
    reason, message = told([init])
    assert reason == "ModelDownloadFailed"
    assert "RepositoryNotFoundError: 404; correct spec.model.source" in message


def test_a_download_that_is_done_is_no_trouble() -> None:
    done = {"name": "model", "state": {"terminated": {"exitCode": 0, "reason": "Completed"}}}
    assert told([STARTING | {"initContainerStatuses": [done]}])[0] == "WorkersStarting"


def test_a_worker_that_ends_without_an_error_again_and_again_is_a_crash_loop() -> None:
    assert told([ended(0, "Completed")])[0] == "CrashLoop"


def test_a_worker_that_was_killed_for_memory_says_so_while_it_starts_again() -> None:
    again = ended(137, "OOMKilled")
    again["containerStatuses"][0]["state"] = {"running": {"startedAt": "now"}}
    reason, message = told([again])
    assert reason == "OOMKilled"
    assert "raise hostMemory" in message


def test_pods_that_the_api_server_refuses_are_told_of_where_there_are_too_few() -> None:
    said = 'pods "assistant-batch-1" is forbidden: exceeded quota: small'
    failure = {"type": "ReplicaFailure", "status": "True", "message": said}
    of = view(roles=states(pool(CPU), [], deployment={"conditions": [failure]}))
    assert summary(of) == ("False", "PodsRefused", "True", "False")
    assert "exceeded quota: small" in conditions(of)["Ready"]["message"]


def test_a_pod_that_waits_for_its_volumes_says_where_to_look() -> None:
    held = {"type": "PodReadyToStartContainers", "status": "False"}
    reason, message = told([{"conditions": [*STARTING["conditions"], held]}])
    assert reason == "WorkersStarting"
    assert "1 wait for volumes, devices or network (see kubectl describe pod)" in message
