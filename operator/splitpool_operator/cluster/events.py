"""Which events does a change of a pool's status deserve? Pure; only transitions."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from splitpool_operator.cluster import kinds
from splitpool_operator.rendering import names
from splitpool_operator.reporting import reasons
from splitpool_operator.reporting.conditions import BLOCKED
from splitpool_operator.reporting.view import Scaling

# Reasons why a pool is not ready that belong to every start and every rollout.
EXPECTED = frozenset(
    {
        reasons.CREATING,
        reasons.ROLLING_OUT,
        reasons.STARTING,
        reasons.ROUTER_BEHIND,
        reasons.PREDECESSOR_TERMINATING,
        reasons.SERVING,
    }
)
SCALED = frozenset(
    {
        *(reasons.SCALED_OUT, reasons.SCALED_IN, reasons.WOKEN),
        *(reasons.GAVE_WAY, reasons.BOUNDED),
    }
)
# From one of these to another is progress that nobody has to be told of.
_IN_PASSING = EXPECTED - {reasons.SERVING}


def events(
    pool: Mapping[str, Any],
    before: Sequence[Mapping[str, Any]],
    after: Sequence[Mapping[str, Any]],
    now: str,
) -> Iterator[dict[str, Any]]:
    """An event where Ready, or Stalled in its place, has another status or reason, and where
    something new stands in the way of autoscaling."""
    known = {each["type"]: (each["status"], each["reason"]) for each in before}
    yield from _blocked(pool, known, after, now)
    stalled = any(each["type"] == "Stalled" and each["status"] == "True" for each in after)
    told = "Stalled" if stalled else "Ready"
    for each in after:
        was = known.get(each["type"], ("", ""))
        changed = was != (each["status"], each["reason"])
        goes_on = {was[1], each["reason"]} <= _IN_PASSING
        if each["type"] == told and changed and not goes_on:
            yield _event(pool, each, now)


def scalings(pool: Mapping[str, Any], scaling: Scaling, now: str) -> Iterator[dict[str, Any]]:
    """An event for each class whose replicas were moved."""
    for name, was, move in scaling.changes:
        text = f"{name}: {was.replicas} to {move.replicas}, {move.text}"
        yield _event(pool, {"type": name, "reason": move.reason, "message": text}, now)


def _blocked(
    pool: Mapping[str, Any],
    known: Mapping[str, tuple[str, str]],
    after: Sequence[Mapping[str, Any]],
    now: str,
) -> Iterator[dict[str, Any]]:
    for each in after:
        blocked = each["type"] == "AutoscalingActive" and each["reason"] in BLOCKED
        if blocked and known.get(each["type"], ("", ""))[1] != each["reason"]:
            yield _event(pool, each, now)


def _event(pool: Mapping[str, Any], condition: Mapping[str, Any], now: str) -> dict[str, Any]:
    metadata = pool["metadata"]
    content = [metadata["uid"], condition["type"], condition["reason"], now]
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {
            "name": names.hashed(metadata["name"], content),
            "namespace": metadata["namespace"],
        },
        "involvedObject": {
            "apiVersion": kinds.POOL.api_version,
            "kind": kinds.POOL.name,
            "name": metadata["name"],
            "namespace": metadata["namespace"],
            "uid": metadata["uid"],
        },
        "type": "Normal" if condition["reason"] in EXPECTED | SCALED else "Warning",
        "reason": condition["reason"],
        "message": condition["message"][:1000],
        "source": {"component": "splitpool-operator"},
        "reportingComponent": "splitpool-operator",
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
    }
