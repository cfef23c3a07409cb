"""Which events does a change of a pool's status deserve? Pure; only transitions."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from splitpool_operator.cluster import kinds
from splitpool_operator.rendering import names

_TOLD = ("Ready", "Stalled")


def events(
    pool: Mapping[str, Any],
    before: Sequence[Mapping[str, Any]],
    after: Sequence[Mapping[str, Any]],
    now: str,
) -> Iterator[dict[str, Any]]:
    """An event for each told condition whose status or reason has changed."""
    known = {each["type"]: (each["status"], each["reason"]) for each in before}
    for each in after:
        changed = known.get(each["type"]) != (each["status"], each["reason"])
        if each["type"] in _TOLD and changed and not _quiet(each):
            yield _event(pool, each, now)


def _quiet(condition: Mapping[str, Any]) -> bool:
    """Not being stalled is no news; being stalled is told by Stalled and not by Ready too."""
    return bool(condition["type"] == "Stalled" and condition["status"] == "False")


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
        "type": "Warning" if condition["type"] == "Stalled" else "Normal",
        "reason": condition["reason"],
        "message": condition["message"][:1000],
        "source": {"component": "splitpool-operator"},
        "reportingComponent": "splitpool-operator",
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
    }
