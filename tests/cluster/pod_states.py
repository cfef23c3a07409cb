"""Which status would a kubelet report of a pod? Pure: a pod and what befalls it make a status."""

from enum import StrEnum
from typing import Any

Object = dict[str, Any]


class Fate(StrEnum):
    """What befalls a pod on its node."""

    READY = "Ready"
    NEVER_READY = "NeverReady"
    """Runs, but its readiness probe never succeeds."""
    STARTING = "Starting"
    """Its containers are being created, for as long as this fate lasts."""
    CRASH_LOOP = "CrashLoop"
    OOM_KILLED = "OOMKilled"
    IMAGE_ERROR = "ImageError"
    """The registry does not have the image."""
    CONFIG_ERROR = "ConfigError"
    """A Secret that its container needs does not exist."""
    CANNOT_RUN = "CannotRun"
    """Its image has no such program."""
    DOWNLOAD_FAILED = "DownloadFailed"
    """Its first init container ends with an error, again and again."""
    HELD = "Held"
    """Its volumes cannot be mounted, so that nothing of it starts."""
    LINGERING = "Lingering"
    """Ready; when it is deleted it terminates for as long as this fate lasts."""


_RUNNING = frozenset({Fate.READY, Fate.NEVER_READY, Fate.LINGERING})
_ENDED = {
    Fate.CRASH_LOOP: {"reason": "Error", "exitCode": 1},
    Fate.OOM_KILLED: {"reason": "OOMKilled", "exitCode": 137},
    Fate.CANNOT_RUN: {
        "reason": "StartError",
        "exitCode": 128,
        "message": 'exec: "python": executable file not found in $PATH',
    },
}
_WAITING = {
    Fate.STARTING: {"reason": "ContainerCreating"},
    Fate.HELD: {"reason": "ContainerCreating"},
    Fate.DOWNLOAD_FAILED: {"reason": "PodInitializing"},
    Fate.CONFIG_ERROR: {
        "reason": "CreateContainerConfigError",
        "message": 'secret "keys" not found',
    },
}
_INITIALIZING = frozenset({Fate.STARTING, Fate.HELD})
_RESTARTS = 5


def status(pod: Object, fate: Fate, *, ip: str, host_ip: str, now: str) -> Object:
    """The status of a bound pod, at a time as Kubernetes writes it."""
    ready = fate in (Fate.READY, Fate.LINGERING) and "deletionTimestamp" not in pod["metadata"]
    containers = pod["spec"]["containers"]
    result: Object = {
        "phase": "Running" if fate in _RUNNING or fate in _ENDED else "Pending",
        "startTime": pod.get("status", {}).get("startTime", now),
        "hostIP": host_ip,
        "hostIPs": [{"ip": host_ip}],
        "observedGeneration": pod["metadata"].get("generation", 0),
        "conditions": _conditions(pod, fate, ready=ready, now=now),
        "containerStatuses": [_container(each, fate, ready=ready, now=now) for each in containers],
    }
    before = pod["spec"].get("initContainers") or []
    if before:
        result["initContainerStatuses"] = [_init_container(each, fate, now) for each in before]
    if result["phase"] == "Running":
        result |= {"podIP": ip, "podIPs": [{"ip": ip}]}
    return result


def _conditions(pod: Object, fate: Fate, *, ready: bool, now: str) -> list[Object]:
    unready = {} if ready else {"reason": "ContainersNotReady"}
    facts = {
        "PodScheduled": {"status": "True"},
        "PodReadyToStartContainers": {"status": str(fate != Fate.HELD)},
        "Initialized": {"status": str(fate not in _INITIALIZING | {Fate.DOWNLOAD_FAILED})},
        "ContainersReady": {"status": str(ready), **unready},
        "Ready": {"status": str(ready), **unready},
    }
    before = {each["type"]: each for each in pod.get("status", {}).get("conditions", [])}
    return [_dated({"type": kind, **fact}, before.get(kind), now) for kind, fact in facts.items()]


def _dated(condition: Object, before: Object | None, now: str) -> Object:
    changed = before is None or before["status"] != condition["status"]
    moment = now if changed or before is None else before.get("lastTransitionTime", now)
    return condition | {"lastTransitionTime": moment}


def _container(container: Object, fate: Fate, *, ready: bool, now: str) -> Object:
    running = fate in _RUNNING
    result: Object = {
        "name": container["name"],
        "image": container["image"],
        "imageID": "",
        "ready": ready,
        "started": running,
        "restartCount": _RESTARTS if fate in _ENDED else 0,
        "state": {"running": {"startedAt": now}} if running else _waiting(container, fate),
    }
    if not (running or fate in _ENDED):
        return result
    result |= {"containerID": f"fake://{container['name']}", "imageID": container["image"]}
    if fate in _ENDED:
        last = _ENDED[fate] | {"startedAt": now, "finishedAt": now}
        result["lastState"] = {"terminated": last | {"containerID": result["containerID"]}}
    return result


def _init_container(container: Object, fate: Fate, now: str) -> Object:
    """Done, unless the fate is one of those in which it is not."""
    times = {"startedAt": now, "finishedAt": now, "containerID": f"fake://{container['name']}"}
    done = {"terminated": {"reason": "Completed", "exitCode": 0, **times}}
    failed = {"terminated": {"reason": "Error", "exitCode": 1, "message": "404 Not Found", **times}}
    result: Object = {
        "name": container["name"],
        "image": container["image"],
        "imageID": container["image"],
        "ready": fate not in _INITIALIZING | {Fate.DOWNLOAD_FAILED},
        "restartCount": 0,
        "state": done,
    }
    if fate in _INITIALIZING:
        result["state"] = {"waiting": {"reason": "PodInitializing"}}
    if fate == Fate.DOWNLOAD_FAILED:
        waiting = {"reason": "CrashLoopBackOff", "message": "back-off 2m40s restarting"}
        result |= {"restartCount": _RESTARTS, "state": {"waiting": waiting}, "lastState": failed}
    return result


def _waiting(container: Object, fate: Fate) -> Object:
    if fate == Fate.IMAGE_ERROR:
        text = f'Back-off pulling image "{container["image"]}": not found'
        return {"waiting": {"reason": "ImagePullBackOff", "message": text}}
    if fate in _WAITING:
        return {"waiting": _WAITING[fate]}
    text = f"back-off 2m40s restarting failed container={container['name']}"
    return {"waiting": {"reason": "CrashLoopBackOff", "message": text}}
