"""What does the control law see of a pool in the cluster? Pure: objects and signals in."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from splitpool_operator.autoscaling.signals import Signals
from splitpool_operator.autoscaling.state import Limits, Outgrown, Scene, Situation
from splitpool_operator.cluster.store import FIELD_OWNER
from splitpool_operator.declaration import defaults
from splitpool_operator.declaration.pool import ClassName, InferencePool, class_spec
from splitpool_operator.planning import plan, quota
from splitpool_operator.rendering import names

Object = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What Prometheus and the routers say of a pool, by class."""

    signals: Mapping[str, Signals] = field(default_factory=dict)
    # Why there is none of a class.
    silence: str = ""
    # Requests that routers hold back.
    waiting: Mapping[str, int] = field(default_factory=dict)


def scene(
    pool: InferencePool,
    status: Object,
    deployments: Mapping[str, Object],
    pods: Iterable[Object],
    measured: Measured,
    now: float,
) -> Scene | None:
    """The pool at that time (Unix seconds); None before every role has its Deployment.

    deployments: by role. Raises quota.DoesNotFit.
    """
    roles = {plan.role(classes): classes[0] for classes in plan.kinds(pool.spec)}
    if not roles.keys() <= deployments.keys():
        return None
    listed = list(pods)
    situations = [
        _situation(
            pool,
            name,
            (status.get("pools") or {}).get(name) or {},
            deployments[role],
            [pod for pod in listed if _is_of(pod, role)],
            measured,
            now,
        )
        for role, name in roles.items()
    ]
    first = situations[0]
    most = max(first.limits.high, first.replicas)
    return Scene(
        interactive=first,
        batch=situations[1] if len(situations) > 1 else None,
        room=quota.batch_room(pool.spec, most),
    )


def _situation(
    pool: InferencePool,
    name: ClassName,
    past: Object,
    live: Object,
    pods: list[Object],
    measured: Measured,
    now: float,
) -> Situation:
    bounds, part = defaults.bounds(pool.spec, name), class_spec(pool.spec, name)
    target = part.ttft_p99_ms
    return Situation(
        limits=Limits(low=bounds.low, high=bounds.high),
        replicas=int(live["spec"].get("replicas", 1)),
        ready=sum(_condition(pod, "Ready").get("status") == "True" for pod in pods),
        unplaced=sum(_condition(pod, "PodScheduled").get("status") == "False" for pod in pods),
        start=min((each for pod in pods if (each := _start(pod)) is not None), default=None),
        scaled=_ago(past.get("lastScaleTime"), now),
        written=_ago(_last_written(live), now),
        outgrown=_outgrown(past.get("outgrown")),
        slots=part.max_batch,
        waiting=measured.waiting.get(name, 0),
        signals=measured.signals.get(name),
        silence=measured.silence,
        target=None if target is None else target / 1000,
        deadline=defaults.backlog_seconds(pool.spec),
    )


def _is_of(pod: Object, role: str) -> bool:
    """Pods on their way out neither serve nor take room for long."""
    metadata = pod["metadata"]
    mine = (metadata.get("labels") or {}).get(names.CLASS) == role
    return mine and "deletionTimestamp" not in metadata


def _condition(pod: Object, kind: str) -> Object:
    found: list[Object] = (pod.get("status") or {}).get("conditions") or []
    return next((each for each in found if each.get("type") == kind), {})


def _start(pod: Object) -> float | None:
    """Seconds from a pod's creation until it was last ready."""
    ready, made = _condition(pod, "Ready"), pod["metadata"].get("creationTimestamp")
    if ready.get("status") != "True" or not made or not ready.get("lastTransitionTime"):
        return None
    return _seconds(ready["lastTransitionTime"]) - _seconds(made)


def _last_written(live: Object) -> str | None:
    owners: list[Object] = live["metadata"].get("managedFields") or []
    times = [str(each["time"]) for each in owners if _is_ours(each) and each.get("time")]
    return max(times, default=None)


def _is_ours(entry: Object) -> bool:
    return entry.get("manager") == FIELD_OWNER and not entry.get("subresource")


def _outgrown(past: Object | None) -> Outgrown | None:
    try:
        replicas, rate = int((past or {})["replicas"]), float((past or {})["requestsPerSecond"])
    except (KeyError, ValueError):
        return None
    return Outgrown(replicas=replicas, rate=rate) if replicas else None


def _ago(moment: str | None, now: float) -> float | None:
    """A time ahead of ours, by a clock that is not, counts as now."""
    return None if moment is None else max(0.0, now - _seconds(moment))


def _seconds(moment: str) -> float:
    return datetime.fromisoformat(moment).timestamp()
