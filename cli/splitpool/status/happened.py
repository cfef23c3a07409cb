"""Which events tell what happened to a pool lately? Warnings first, then the newest."""

import datetime
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from splitpool.status import ages
from splitpool.status.wording import clean

_MOST = 6
_WORKLOADS = ("Pod", "ReplicaSet", "Deployment")


@dataclass(frozen=True, slots=True, kw_only=True)
class Happened:
    """What happened, how often, and how long ago last."""

    warning: bool
    reason: str
    # Empty where it is about the pool itself.
    about: str
    message: str
    times: int
    age: datetime.timedelta | None


def concerns(event: Mapping[str, Any], pool: Mapping[str, Any]) -> bool:
    """Whether an event is about the pool, or a warning about what runs its workers."""
    target, metadata = event.get("involvedObject") or {}, pool["metadata"]
    if target.get("kind") == "InferencePool":
        # Another pool may have had the name before.
        return all(target.get(key) == metadata.get(key) for key in ("name", "uid"))
    children = tuple(f"{metadata['name']}-{role}" for role in ("interactive", "batch", "shared"))
    name = str(target.get("name", ""))
    mine = name in children or name.startswith(tuple(f"{child}-" for child in children))
    return event.get("type") == "Warning" and target.get("kind") in _WORKLOADS and mine


def lately(
    events: Iterable[Mapping[str, Any]], pool: Mapping[str, Any], now: datetime.datetime
) -> tuple[Happened, ...]:
    """The few that matter most; what was said several times is said once."""
    said: dict[tuple[str, str, str], Happened] = {}
    for event in sorted(events, key=_moment, reverse=True):
        if not concerns(event, pool):
            continue
        each = _told(event, now)
        key = (each.reason, each.about.rpartition("-")[0], each.message)
        before = said.get(key)
        said[key] = each if before is None else replace(before, times=before.times + each.times)
    newest_first = list(said.values())
    return tuple(sorted(newest_first, key=lambda each: not each.warning)[:_MOST])


def _told(event: Mapping[str, Any], now: datetime.datetime) -> Happened:
    target = event.get("involvedObject") or {}
    own = target.get("kind") == "InferencePool"
    return Happened(
        warning=event.get("type") == "Warning",
        reason=clean(event.get("reason", "")),
        about="" if own else clean(target.get("name", "")),
        message=clean(event.get("message") or event.get("note") or ""),
        times=(event.get("series") or {}).get("count") or event.get("count") or 1,
        age=ages.since(_moment(event), now),
    )


def _moment(event: Mapping[str, Any]) -> str:
    """When it happened last; recorders of different ages write different fields."""
    return str(
        (event.get("series") or {}).get("lastObservedTime")
        or event.get("lastTimestamp")
        or event.get("eventTime")
        or event["metadata"].get("creationTimestamp")
        or ""
    )
