"""Which conditions does a pool have, by the conventions of kstatus?

Stalled and Reconciling are abnormal when True; Ready is True only when neither is.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from splitpool_operator.autoscaling.state import Move, Situation
from splitpool_operator.declaration.pool import CLASSES, ClassName
from splitpool_operator.reporting import reasons
from splitpool_operator.reporting.checks import first_finding
from splitpool_operator.reporting.enforcement import weaker
from splitpool_operator.reporting.view import Finding, View


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """One condition without its times."""

    type: str
    status: str
    reason: str
    message: str


def conditions(view: View) -> list[Condition]:
    """Every condition of the pool, the important ones first."""
    finding = first_finding(view)
    return [
        _ready(view, finding),
        _reconciling(finding),
        _stalled(finding),
        *(_available(view, name) for name in CLASSES),
        _quota_enforced(view),
        _autoscaling(view),
    ]


def dated(
    made: Sequence[Condition], previous: Sequence[Mapping[str, Any]], generation: int, now: str
) -> list[dict[str, Any]]:
    """The conditions as the API has them; the time of a status that has not changed stays."""
    before = {each.get("type"): each for each in previous}
    return [
        {
            "type": each.type,
            "status": each.status,
            "observedGeneration": generation,
            "lastTransitionTime": _since(each, before.get(each.type), now),
            "reason": each.reason,
            "message": each.message,
        }
        for each in made
    ]


def _since(condition: Condition, before: Mapping[str, Any] | None, now: str) -> str:
    if before is None or before.get("status") != condition.status:
        return now
    return str(before.get("lastTransitionTime", now))


def _ready(view: View, finding: Finding | None) -> Condition:
    if finding is not None:
        return _condition("Ready", False, finding.reason, finding.message)
    counts = " and ".join(f"{role.ready}/{role.desired} {role.name}" for role in view.roles)
    return _condition("Ready", True, reasons.SERVING, f"{counts} workers serve this generation")


def _reconciling(finding: Finding | None) -> Condition:
    if finding is None or finding.final:
        return _condition("Reconciling", False, reasons.SETTLED, "nothing is left to do")
    return _condition("Reconciling", True, finding.reason, finding.message)


def _stalled(finding: Finding | None) -> Condition:
    if finding is None or not finding.final:
        return _condition("Stalled", False, reasons.NOT_STALLED, "no change is needed")
    return _condition("Stalled", True, finding.reason, finding.message)


def _available(view: View, name: ClassName) -> Condition:
    kind = f"{name.capitalize()}Available"
    role = view.role_of(name)
    if role is None:
        return _condition(kind, False, reasons.NO_WORKER, "there is no worker")
    if role.desired == 0:
        text = "wakes when requests wait" if view.wakes(name) else "replicas are 0"
        return _condition(kind, view.wakes(name), reasons.SCALED_TO_ZERO, text)
    text = f"{role.ready} of {role.desired} workers are ready"
    if role.ready == 0:
        return _condition(kind, False, reasons.NO_WORKER, text)
    full = role.ready >= role.desired
    return _condition(kind, True, reasons.AVAILABLE if full else reasons.DEGRADED, text)


def _quota_enforced(view: View) -> Condition:
    kind, fence = "QuotaEnforced", view.fence
    if fence is None:
        text = "no worker has reported the fence that it sees"
        return Condition(type=kind, status="Unknown", reason=reasons.NOT_REPORTED, message=text)
    text = f"the weakest fence that a worker sees is {fence}"
    if weaker(fence.enforcement, view.minimum):
        text = f"{text}, below {view.minimum}"
        return _condition(kind, False, reasons.ENFORCEMENT_TOO_WEAK, text)
    if fence.enforcement == "Cooperative":
        text = f"{text}: the workers keep to their quotas by themselves only"
        return _condition(kind, False, reasons.COOPERATIVE_ONLY, text)
    return _condition(kind, True, reasons.FENCE_SEEN, text)


# What stands in the way of autoscaling, the worst first.
BLOCKED = (
    reasons.NO_SIGNALS,
    reasons.WAITING_FOR_GPU,
    reasons.AT_MAXIMUM,
    reasons.MORE_REPLICAS_DO_NOT_HELP,
)
# What is worth more to be told than that the other class has nothing to do.
_MOVING = (
    *(reasons.SCALED_OUT, reasons.WOKEN, reasons.GAVE_WAY, reasons.SCALED_IN, reasons.BOUNDED),
    *(reasons.STARTING, reasons.COOLING_DOWN, reasons.STEADY),
)
_ORDER = (*BLOCKED, *_MOVING)


def _autoscaling(view: View) -> Condition:
    kind, mode = "AutoscalingActive", view.pool.spec.autoscaling.mode if view.pool else "Off"
    if mode == "Off":
        return _condition(kind, False, reasons.OFF, "replicas stay as declared")
    if mode == "External":
        return _condition(kind, False, reasons.EXTERNAL, "replicas belong to another autoscaler")
    moves = view.scaling.moves if view.scaling else []
    if not moves:
        return _condition(kind, False, reasons.STARTING, "nothing is decided before workers are")
    reason = min((move.reason for _, _, move in moves), key=_ORDER.index)
    text = "; ".join(f"{name}: {_said(before, move)}" for name, before, move in moves)
    return _condition(kind, reason not in BLOCKED, reason, text)


def _said(before: Situation, move: Move) -> str:
    if move.replicas == before.replicas:
        return move.text
    return f"{before.replicas} to {move.replicas}, {move.text}"


def _condition(kind: str, status: bool, reason: str, message: str) -> Condition:
    return Condition(type=kind, status=str(status), reason=reason, message=message)
