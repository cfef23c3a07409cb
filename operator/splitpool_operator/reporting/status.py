"""The status of a pool as the API has it, from a view; what nobody observed is left out."""

from typing import Any

from splitpool_operator.declaration.pool import CLASSES, ClassName
from splitpool_operator.reporting.conditions import conditions, dated
from splitpool_operator.reporting.enforcement import Vram
from splitpool_operator.reporting.observed import RoleState
from splitpool_operator.reporting.view import Scaling, View
from splitpool_quantity.quantity import show

# Written by autoscaling and kept by everything else.
_SCALED = ("lastScaleTime", "lastScaleReason", "outgrown")
_MEASURED = ("ttftP99Ms", "ttftP99", "ttftWindowSeconds")
# Of the quota: what moves with traffic is written in steps, so that it rarely is.
_STEPS = 20


def status(view: View, now: str) -> dict[str, Any]:
    """The whole status; now: RFC 3339, for conditions that change."""
    result: dict[str, Any] = {
        "observedGeneration": view.generation,
        "conditions": dated(
            conditions(view), view.previous.get("conditions") or [], view.generation, now
        ),
    }
    pools = {
        name: _class(view, name, role, now)
        for name in CLASSES
        if (role := view.role_of(name)) is not None
    }
    if pools:
        result["pools"] = pools
    if view.fence is not None:
        result["enforcement"] = view.fence.enforcement
    return result


def _class(view: View, name: ClassName, role: RoleState, now: str) -> dict[str, Any]:
    before = (view.previous.get("pools") or {}).get(name) or {}
    result: dict[str, Any] = {
        "summary": f"{role.ready}/{role.desired}",
        "desiredReplicas": role.desired,
        "readyReplicas": role.ready,
        "updatedReplicas": role.updated,
    }
    fence = view.fence_of(role)
    if fence is not None:
        result["enforcement"] = fence.enforcement
    vram = _vram(view, name, role)
    if vram is not None:
        result["vram"] = _shown(vram)
    kept = {key: before[key] for key in (*_SCALED, *_MEASURED) if key in before}
    return result | kept | _scaled(view, name, now) | _ttft(view, name)


def _scaled(view: View, name: ClassName, now: str) -> dict[str, Any]:
    """When and why the replicas were moved just now."""
    changes = {each: (was, move) for each, was, move in (view.scaling or Scaling()).changes}
    if name not in changes:
        return {}
    was, move = changes[name]
    reason = f"{move.reason}, {was.replicas} to {move.replicas}: {move.text}"
    result: dict[str, Any] = {"lastScaleTime": now, "lastScaleReason": reason[:1024]}
    if move.outgrown is not None:
        rate = f"{move.outgrown.rate:.3g}"
        result["outgrown"] = {"replicas": move.outgrown.replicas, "requestsPerSecond": rate}
    return result


def _ttft(view: View, name: ClassName) -> dict[str, Any]:
    scaling = view.scaling or Scaling()
    if name not in scaling.ttft:
        return {}
    ms = scaling.ttft[name]
    return {"ttftP99Ms": ms, "ttftP99": f"{ms}ms", "ttftWindowSeconds": int(scaling.window)}


def _vram(view: View, name: ClassName, role: RoleState) -> Vram | None:
    """The fullest of the class's workers."""
    reports = [view.reports[pod.uid] for pod in role.pods if pod.uid in view.reports]
    figures = [report.vram[name] for report in reports if name in report.vram]
    return max(figures, key=lambda each: each.used, default=None)


def _shown(vram: Vram) -> dict[str, str]:
    step = max(1, vram.quota // _STEPS)
    used = min(vram.quota, -(-vram.used // step) * step)
    mebibyte = 1024**2
    return {
        "quota": show(vram.quota),
        "weights": show(-(-vram.weights // mebibyte) * mebibyte),
        "kv": show(-(-vram.kv // mebibyte) * mebibyte),
        "used": show(-(-used // mebibyte) * mebibyte),
    }
