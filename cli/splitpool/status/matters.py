"""Which of a pool's conditions matter to somebody who looks? Those that are not as wished."""

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from splitpool.status import ages
from splitpool.status.wording import clean
from splitpool_operator.reporting import reasons

# Abnormal when True; every other condition of a pool is when it is not.
_ABNORMAL = frozenset({"Reconciling", "Stalled"})
# True or False, these say that all is as declared.
_FINE = frozenset({reasons.OFF, reasons.EXTERNAL})
# True, and yet worth knowing.
_WORTH_KNOWING = frozenset({reasons.DEGRADED, reasons.SCALED_TO_ZERO})


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """One condition, and for how long it has been so."""

    type: str
    status: str
    reason: str
    message: str
    age: datetime.timedelta | None


def conditions(status: Mapping[str, Any], now: datetime.datetime) -> tuple[Condition, ...]:
    """Every condition of a status."""
    return tuple(
        Condition(
            type=clean(each.get("type", "")),
            status=clean(each.get("status", "Unknown")),
            reason=clean(each.get("reason", "")),
            message=clean(each.get("message", "")),
            age=ages.since(each.get("lastTransitionTime"), now),
        )
        for each in status.get("conditions") or []
    )


def mattering(found: Sequence[Condition]) -> tuple[Condition, ...]:
    """The ones to look at; what Ready says already is not said again by another."""
    ready = next((each for each in found if each.type == "Ready"), None)
    said = (ready.reason, ready.message) if ready and ready.status != "True" else None
    return tuple(
        each
        for each in found
        if _matters(each) and (each is ready or (each.reason, each.message) != said)
        if not (each.status == "Unknown" and said)
    )


def _matters(condition: Condition) -> bool:
    if condition.reason in _WORTH_KNOWING:
        return True
    if condition.type in _ABNORMAL:
        return condition.status == "True"
    return condition.status != "True" and condition.reason not in _FINE
