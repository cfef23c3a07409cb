"""Pools as an API server shows them, in states that people meet."""

import datetime
from typing import Any

from splitpool.status.snapshot import Object, Snapshot
from unit.pool_files import GPU, changed

NOW = datetime.datetime(2026, 11, 29, 18, 0, tzinfo=datetime.UTC)
COOPERATIVE = (
    "the weakest fence that a worker sees is Cooperative: the workers keep to their quotas by "
    "themselves only"
)
CRASH = (
    "worker ends with exit status 1: CUDA error: an illegal memory access was encountered; "
    "see kubectl logs --previous"
)
FULL = {"quota": "40Gi", "weights": "8200Mi", "kv": "30Gi", "used": "37Gi"}
HALF = {"quota": "32Gi", "weights": "8200Mi", "kv": "22Gi", "used": "14Gi"}


def ago(**age: float) -> str:
    """The moment so long before NOW."""
    return (NOW - datetime.timedelta(**age)).strftime("%Y-%m-%dT%H:%M:%SZ")


def declared(changes: dict[str, Any] | None = None, name: str = "assistant") -> Object:
    """As `kubectl apply` leaves it, without a status."""
    more = {
        "metadata.name": name,
        "metadata.namespace": "team",
        "metadata.uid": f"uid-of-{name}",
        "metadata.generation": 3,
        "metadata.creationTimestamp": ago(days=3),
        "spec.topology": "Split",
        "spec.model.dtype": "bfloat16",
        "spec.model.maxModelLen": 8192,
        "spec.pools.interactive.ttftP99Ms": 300,
    }
    return changed(GPU, more | (changes or {}))


def condition(
    kind: str, status: str, reason: str, message: str = "said", minutes: float = 3
) -> Object:
    """One condition, unchanged for so long."""
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": ago(minutes=minutes),
    }


def with_status(
    pool: Object, conditions: list[Object], classes: dict[str, Object] | None = None, **more: Any
) -> Object:
    """The pool as the operator reports it."""
    workers = {"desiredReplicas": 2, "readyReplicas": 2, "updatedReplicas": 2}
    shown = {name: workers | (classes or {}).get(name, {}) for name in ("interactive", "batch")}
    status = {"observedGeneration": 3, "conditions": conditions, "pools": shown, **more}
    return pool | {"status": status}


def ready() -> Snapshot:
    """Serves, and is measured."""
    conditions = [
        condition("Ready", "True", "Serving", "2/2 interactive and 2/2 batch", minutes=180),
        condition("Reconciling", "False", "Settled"),
        condition("Stalled", "False", "NotStalled"),
        condition("InteractiveAvailable", "True", "Available"),
        condition("BatchAvailable", "True", "Available"),
        condition("QuotaEnforced", "False", "CooperativeOnly", COOPERATIVE, minutes=180),
        condition("AutoscalingActive", "False", "Off"),
    ]
    classes: dict[str, Object] = {
        "interactive": {"ttftP99Ms": 240, "ttftWindowSeconds": 300, "vram": HALF},
        "batch": {"vram": FULL},
    }
    pool = with_status(declared(), conditions, classes, enforcement="Cooperative")
    return Snapshot(pool=pool, now=NOW)


def not_ready(
    reason: str, message: str, *, stalled: bool = False, minutes: float = 3, name: str = "assistant"
) -> Object:
    """Not ready for a reason; the batch class has no worker."""
    conditions = [
        condition("Ready", "False", reason, message, minutes),
        condition("Reconciling", str(not stalled), reason, message, minutes),
        condition("Stalled", str(stalled), reason if stalled else "NotStalled", message, minutes),
        condition("InteractiveAvailable", "True", "Available"),
        condition("BatchAvailable", "False", "NoReadyWorker", "0 of 2 workers are ready", minutes),
        condition("QuotaEnforced", "Unknown", "NotReported", "no worker has reported the fence"),
    ]
    measured: Object = {"vram": HALF, "ttftP99Ms": 440}
    classes: dict[str, Object] = {"interactive": measured, "batch": {"readyReplicas": 0}}
    return with_status(declared(name=name), conditions, classes)


def pod(name: str, role: str, status: Object, **metadata: Any) -> Object:
    """One worker's pod."""
    place = {
        "name": f"assistant-{role}-{name}",
        "namespace": "team",
        "labels": {"splitpool.dev/pool": "assistant", "splitpool.dev/class": role},
        "creationTimestamp": ago(minutes=4),
    }
    return {"metadata": place | metadata, "spec": {"nodeName": "gpu-0"}, "status": status}


def crashing(name: str) -> Object:
    """A batch worker that ends again and again."""
    end = {"exitCode": 1, "reason": "Error", "message": CRASH.split(": ", 1)[1].split(";")[0]}
    container = {
        "name": "worker",
        "restartCount": 5,
        "state": {"waiting": {"reason": "CrashLoopBackOff"}},
        "lastState": {"terminated": end},
    }
    unready = [{"type": "Ready", "status": "False"}]
    return pod(name, "batch", {"conditions": unready, "containerStatuses": [container]})


def event(reason: str, message: str, minutes: float, **more: Any) -> Object:
    """About the pool, unless told otherwise."""
    about = {"kind": "InferencePool", "name": "assistant", "uid": "uid-of-assistant"}
    return {
        "metadata": {"uid": f"{reason}-{minutes}"},
        "type": "Normal",
        "reason": reason,
        "message": message,
        "lastTimestamp": ago(minutes=minutes),
        "involvedObject": about,
        **more,
    }


def crash_loop() -> Snapshot:
    """Both batch workers crash; its events say so."""
    backing_off = event(
        "BackOff",
        "Back-off restarting failed container worker in pod assistant-batch-7d9f-a",
        1,
        type="Warning",
        count=12,
        involvedObject={"kind": "Pod", "name": "assistant-batch-7d9f-a", "uid": "1"},
    )
    events = (
        event("RollingOut", "batch: 1 of 2 workers run the present declaration", 5),
        event("CrashLoop", f"batch: {CRASH}", 3, type="Warning"),
        backing_off,
    )
    return Snapshot(
        pool=not_ready("CrashLoop", f"batch: {CRASH}"),
        now=NOW,
        pods=(crashing("7d9f-a"), crashing("7d9f-b")),
        events=events,
    )
