"""Which of a pool's pods are in trouble, and why? Pods with the same trouble are told together."""

import datetime
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from splitpool.status import ages
from splitpool.status.wording import clean
from splitpool_operator.rendering import names
from splitpool_operator.reporting.trouble import of_pod

# A pod that is deleted has its grace period, and the kubelet a little more.
_LINGERS = datetime.timedelta(seconds=60)


@dataclass(frozen=True, slots=True, kw_only=True)
class PodTrouble:
    """One pod's trouble, and how many more of its role have the same."""

    name: str
    role: str
    more: int
    reason: str
    message: str
    node: str
    restarts: int
    age: datetime.timedelta | None


def troubles(pods: Iterable[Mapping[str, Any]], now: datetime.datetime) -> tuple[PodTrouble, ...]:
    """One entry for each kind of trouble of each role."""
    groups: dict[tuple[str, str, str], PodTrouble] = {}
    for pod in sorted(pods, key=lambda each: str(each["metadata"]["name"])):
        for found in _of(pod, now):
            key = (found.role, found.reason, found.message)
            before = groups.get(key)
            groups[key] = found if before is None else replace(before, more=before.more + 1)
    return tuple(groups.values())


def starting(pods: Iterable[Mapping[str, Any]], now: datetime.datetime) -> int:
    """How many pods have no trouble and are not ready yet."""
    return sum(
        not (_ready(pod) or _going(pod) or _over(pod)) and not any(_of(pod, now)) for pod in pods
    )


def _of(pod: Mapping[str, Any], now: datetime.datetime) -> Iterator[PodTrouble]:
    if _over(pod):
        return
    if _going(pod):
        yield from _lingering(pod, now)
    elif not _ready(pod):
        found = of_pod(pod.get("status") or {})
        if found is not None:
            yield _told(pod, now, found.reason, found.message)


def _lingering(pod: Mapping[str, Any], now: datetime.datetime) -> Iterator[PodTrouble]:
    """The time of deletion is the end of the grace period."""
    late = ages.since(pod["metadata"].get("deletionTimestamp"), now)
    if late is not None and late > _LINGERS:
        text = f"should have ended {ages.short(late)} ago; is its node still there?"
        yield _told(pod, now, "Terminating", text)


def _told(pod: Mapping[str, Any], now: datetime.datetime, reason: str, message: str) -> PodTrouble:
    metadata, status = pod["metadata"], pod.get("status") or {}
    containers = status.get("containerStatuses") or []
    return PodTrouble(
        name=clean(metadata["name"]),
        role=clean((metadata.get("labels") or {}).get(names.CLASS, "")),
        more=0,
        reason=reason,
        message=clean(message),
        node=clean((pod.get("spec") or {}).get("nodeName", "")),
        restarts=sum(each.get("restartCount", 0) for each in containers),
        age=ages.since(metadata.get("creationTimestamp"), now),
    )


def _ready(pod: Mapping[str, Any]) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or []
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def _going(pod: Mapping[str, Any]) -> bool:
    return "deletionTimestamp" in pod["metadata"]


def _over(pod: Mapping[str, Any]) -> bool:
    """Its Deployment has replaced it."""
    return (pod.get("status") or {}).get("phase") in {"Failed", "Succeeded"}
