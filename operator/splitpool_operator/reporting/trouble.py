"""Why does a pod not become ready? One reason, and a sentence with cause and remedy."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from splitpool_operator.reporting import reasons

_IMAGE = {
    "ErrImagePull",
    "ImagePullBackOff",
    "InvalidImageName",
    "ErrImageNeverPull",
    "ImageInspectError",
    "RegistryUnavailable",
}
_CONFIG = {"CreateContainerConfigError", "CreateContainerError", "RunContainerError"}
_NO_PLACE = {"Unschedulable", "SchedulingGated"}
# The end of a container whose program never ran.
_NEVER_RAN = {"StartError", "ContainerCannotRun"}
# What the kubelet puts before the registry's own words, in one of two states that alternate.
_BEFORE_THE_CAUSE = re.compile(
    r'^(Back-off pulling image "[^"]*"(: )?)?(ErrImagePull: )?(rpc error: code = \w+ desc = )?'
)
_QUOTED_IMAGE = re.compile(r'image "([^"]+)"')
# Exit statuses by which a worker refuses to start, each of which only another declaration cures.
_REFUSALS = {
    2: reasons.WORKER_REFUSES,
    3: reasons.QUOTA_TOO_SMALL,
    4: reasons.MODEL_NOT_FOUND,
}
_LONGEST = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """What keeps a pod from serving; `final` where only another declaration helps."""

    reason: str
    message: str
    final: bool = False


def of_pod(status: Mapping[str, Any]) -> Trouble | None:
    """The trouble of a pod that is not ready, or None while it is merely starting."""
    for container in _containers(status):
        found = _container(container)
        if found is not None:
            return found
    return _unschedulable(status)


def of_deployment(status: Mapping[str, Any]) -> Trouble | None:
    """The trouble of a Deployment whose pods the API server refuses, so that there are none."""
    for condition in status.get("conditions") or []:
        if condition["type"] == "ReplicaFailure" and condition["status"] == "True":
            message = (
                f"pods are refused: {_cut(str(condition.get('message', '')))}; change the "
                "namespace's limits or the pool so that they admit its workers"
            )
            return Trouble(reason=reasons.PODS_REFUSED, message=message)
    return None


def _containers(status: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield from status.get("initContainerStatuses") or []
    yield from status.get("containerStatuses") or []


def _container(container: Mapping[str, Any]) -> Trouble | None:
    waiting = (container.get("state") or {}).get("waiting") or {}
    reason, text = waiting.get("reason", ""), waiting.get("message", "")
    if reason in _IMAGE:
        return _unpulled(container, reason, text)
    if reason in _CONFIG:
        return _cannot_start(container, text or reason)
    return _ended(container, looping=reason == "CrashLoopBackOff")


def _unpulled(container: Mapping[str, Any], reason: str, text: str) -> Trouble:
    """A model that comes as an image is pulled for the container too, under its own name."""
    image = str(container.get("image", ""))
    named = _QUOTED_IMAGE.search(text)
    if named and image not in text:
        image = named[1]
    cause = _cut(_BEFORE_THE_CAUSE.sub("", text) or reason)
    message = (
        f"image {image} cannot be pulled: {cause}; correct the image or give the node access to "
        "its registry"
    )
    return Trouble(reason=reasons.IMAGE_PULL_FAILED, message=message)


def _cannot_start(container: Mapping[str, Any], text: str) -> Trouble:
    message = (
        f"{container.get('name', '')} cannot start: {_cut(text)}; create what is missing or "
        "correct podTemplate"
    )
    return Trouble(reason=reasons.CONTAINER_CANNOT_START, message=message)


def _ended(container: Mapping[str, Any], *, looping: bool) -> Trouble | None:
    """From the present or the last end; one without error is none unless it comes again."""
    ends = [(container.get(key) or {}).get("terminated") for key in ("state", "lastState")]
    end = next((each for each in ends if each), None)
    if end is None or (end.get("exitCode") == 0 and not looping):
        return None
    if end.get("reason") in _NEVER_RAN:
        return _cannot_start(container, str(end.get("message") or end["reason"]))
    return _of_end(str(container.get("name", "")), end)


def _of_end(name: str, end: Mapping[str, Any]) -> Trouble:
    code, said = end.get("exitCode"), _said(end)
    if end.get("reason") == "OOMKilled":
        text = f"{name} was killed at its memory limit; raise hostMemory of its class"
        return Trouble(reason=reasons.OOM_KILLED, message=text)
    if name == "model":
        text = (
            f"the model was not downloaded (exit status {code}): {said}; correct "
            "spec.model.source, or give the pod what the download needs"
        )
        return Trouble(reason=reasons.MODEL_DOWNLOAD_FAILED, message=text)
    if code in _REFUSALS:
        return Trouble(reason=_REFUSALS[code], message=said or f"exit status {code}", final=True)
    text = f"{name} ends with exit status {code}: {said or end.get('reason', '')}"
    return Trouble(reason=reasons.CRASH_LOOP, message=f"{text}; see kubectl logs --previous")


def _said(end: Mapping[str, Any]) -> str:
    """The worker's own words: its last line is a JSON object with the error."""
    lines = str(end.get("message") or "").strip().splitlines()
    if not lines:
        return ""
    try:
        error = json.loads(lines[-1])["error"]["message"]
    except (ValueError, KeyError, TypeError):
        return _cut(lines[-1])
    return _cut(str(error))


def _unschedulable(status: Mapping[str, Any]) -> Trouble | None:
    for condition in status.get("conditions") or []:
        if condition["type"] == "PodScheduled" and condition.get("reason") in _NO_PLACE:
            said = str(condition.get("message", "")).partition(" preemption: ")[0]
            return Trouble(reason=reasons.UNSCHEDULABLE, message=_cut(said))
    return None


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
