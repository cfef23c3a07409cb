"""Which values does a pool have where its file says nothing and the answer depends on other fields?

The constant defaults are in `pool`; what depends on another field is computed here only.
"""

from dataclasses import dataclass
from typing import Any

from splitpool_operator.declaration.pool import (
    CLASSES,
    ClassName,
    InferencePool,
    ScaleBatch,
    ScaleInteractive,
    Sharing,
    Spec,
    class_spec,
)
from splitpool_quantity.quantity import show

_HEADROOM_FLOOR = 2 * 1024**3
_TOKEN_BUDGET = {
    ("gpu", "interactive"): 2048,
    ("gpu", "batch"): 8192,
    ("cpu", "interactive"): 256,
    ("cpu", "batch"): 512,
}
_PREFILL_CHUNK = {
    ("gpu", "interactive"): 512,
    ("gpu", "batch"): 2048,
    ("cpu", "interactive"): 128,
    ("cpu", "batch"): 256,
}
_MAX_STEP_MS = {"gpu": 50, "cpu": 100}


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """How far autoscaling may move the replicas of a class."""

    low: int
    high: int


def headroom(spec: Spec) -> int:
    """Bytes of one GPU that are never handed out."""
    declared = spec.accelerator.headroom
    if declared is not None:
        return declared
    if spec.accelerator.type == "cpu":
        return 0
    return max(_HEADROOM_FLOOR, spec.accelerator.memory * 4 // 100)


def sharing(spec: Spec) -> Sharing | None:
    """How GPUs are shared; None on cpu."""
    if spec.accelerator.type == "cpu":
        return None
    return spec.sharing or Sharing()


def token_budget(spec: Spec, name: ClassName) -> int:
    """Tokens of one step of a class."""
    return class_spec(spec, name).token_budget or _TOKEN_BUDGET[_kind(spec), name]


def prefill_chunk(spec: Spec, name: ClassName) -> int:
    """Prompt tokens of one sequence in one step."""
    return class_spec(spec, name).prefill_chunk or _PREFILL_CHUNK[_kind(spec), name]


def max_step_ms(spec: Spec, name: ClassName) -> int:
    """Milliseconds that no step is planned to exceed."""
    return class_spec(spec, name).max_step_ms or _MAX_STEP_MS[_kind(spec)]


def bounds(spec: Spec, name: ClassName) -> Bounds:
    """Bounds of the replicas of a class; they bind where autoscaling.mode is not Off."""
    replicas = class_spec(spec, name).replicas
    declared = _scaling(spec, name)
    high = replicas if declared.max_replicas is None else declared.max_replicas
    return Bounds(low=declared.min_replicas, high=high)


def backlog_seconds(spec: Spec) -> int:
    """Seconds in which batch's backlog is to be worked off."""
    return (spec.autoscaling.batch or ScaleBatch()).backlog_seconds


def filled(pool: InferencePool) -> dict[str, Any]:
    """The pool as an object with every default written out, as the router reads it."""
    raw: dict[str, Any] = pool.model_dump(by_alias=True, exclude_none=True, mode="json")
    spec, read = raw["spec"], pool.spec
    spec["accelerator"]["headroom"] = show(headroom(read))
    shared = sharing(read)
    if shared is not None:
        spec["sharing"] = shared.model_dump(by_alias=True, mode="json")
    for name in CLASSES:
        _fill_class(spec, read, name)
    return raw


def _fill_class(raw: dict[str, Any], spec: Spec, name: ClassName) -> None:
    raw["pools"][name] |= {
        "tokenBudget": token_budget(spec, name),
        "prefillChunk": prefill_chunk(spec, name),
        "maxStepMs": max_step_ms(spec, name),
    }
    scaling = _scaling(spec, name).model_dump(by_alias=True, exclude_none=True, mode="json")
    raw["autoscaling"][name] = scaling | {"maxReplicas": bounds(spec, name).high}


def _scaling(spec: Spec, name: ClassName) -> ScaleInteractive | ScaleBatch:
    scaling = spec.autoscaling
    if name == "interactive":
        return scaling.interactive or ScaleInteractive()
    return scaling.batch or ScaleBatch()


def _kind(spec: Spec) -> str:
    return "cpu" if spec.accelerator.type == "cpu" else "gpu"
