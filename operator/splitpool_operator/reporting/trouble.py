"""Why does a pod not become ready? One reason, and a sentence with cause and remedy."""

import json
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


def _containers(status: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield from status.get("initContainerStatuses") or []
    yield from status.get("containerStatuses") or []


def _container(container: Mapping[str, Any]) -> Trouble | None:
    waiting = (container.get("state") or {}).get("waiting") or {}
    reason, text = waiting.get("reason", ""), waiting.get("message", "")
    if reason in _IMAGE:
        message = f"image {container.get('image', '')} cannot be pulled: {text or reason}; correct "
        return Trouble(
            reason=reasons.IMAGE_PULL_FAILED,
            message=_cut(message + "the image or give the node access to its registry"),
        )
    if reason in _CONFIG:
        return Trouble(reason=reasons.CONTAINER_CANNOT_START, message=_cut(text or reason))
    return _ended(container)


def _ended(container: Mapping[str, Any]) -> Trouble | None:
    """From the end of the container, present or last."""
    ends = [(container.get(key) or {}).get("terminated") for key in ("state", "lastState")]
    end = next((each for each in ends if each), None)
    if end is None or end.get("exitCode") == 0:
        return None
    name, code, said = container.get("name", ""), end.get("exitCode"), _said(end)
    if end.get("reason") == "OOMKilled":
        text = f"{name} was killed at its memory limit; raise hostMemory of its class"
        return Trouble(reason=reasons.OOM_KILLED, message=text)
    if name == "model":
        text = f"the model was not downloaded (exit status {code}): {said}"
        return Trouble(reason=reasons.MODEL_DOWNLOAD_FAILED, message=_cut(text))
    if code in _REFUSALS:
        return Trouble(reason=_REFUSALS[code], message=said or f"exit status {code}", final=True)
    text = f"{name} ends with exit status {code}: {said or end.get('reason', '')}"
    return Trouble(reason=reasons.CRASH_LOOP, message=_cut(f"{text}; see kubectl logs --previous"))


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
        if condition["type"] == "PodScheduled" and condition.get("reason") == "Unschedulable":
            return Trouble(reason=reasons.UNSCHEDULABLE, message=_cut(condition.get("message", "")))
    return None


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
