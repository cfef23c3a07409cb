"""What is to be known of a pool at a glance? Pure: a snapshot in, facts to show out."""

import datetime
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from splitpool.status import ages
from splitpool.status.happened import Happened, lately
from splitpool.status.matters import Condition, conditions, mattering
from splitpool.status.snapshot import Snapshot
from splitpool.status.trouble import PodTrouble, starting, troubles
from splitpool.status.wording import clean
from splitpool_operator.cluster.events import EXPECTED
from splitpool_operator.declaration.pool import CLASSES
from splitpool_operator.reporting.enforcement import Vram
from splitpool_quantity.quantity import QuantityError, to_bytes


class State(StrEnum):
    """In one word: how is the pool?"""

    READY = "Ready"
    PROGRESSING = "Progressing"
    FAILING = "Failing"
    """Not ready, for a reason that belongs to no start; it may heal."""
    STALLED = "Stalled"
    """Not ready until somebody changes something."""
    UNSEEN = "Unseen"
    """No operator has looked at it, or none at its last change."""
    DELETING = "Deleting"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassGlance:
    """One latency class; None where nobody has reported it."""

    name: str
    ready: int
    desired: int
    updated: int
    quota: str
    vram: Vram | None
    ttft_ms: int | None
    ttft_window: int | None
    target_ms: int | None
    scaled: str
    scaled_age: datetime.timedelta | None

    @property
    def too_slow(self) -> bool:
        """The time to the first token misses its target."""
        return self.ttft_ms is not None and self.ttft_ms > (self.target_ms or self.ttft_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """What the pool's file says, shortly."""

    model: str
    source: str
    dtype: str
    max_model_len: int | None
    accelerator: str
    count: int
    memory: str
    topology: str
    sharing: str
    minimum_fence: str
    autoscaling: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Glance:
    """Everything that is shown of a pool."""

    namespace: str
    name: str
    age: datetime.timedelta | None
    generation: int
    observed: int
    state: State
    reason: str
    message: str
    since: datetime.timedelta | None
    declared: Declared
    classes: tuple[ClassGlance, ...]
    fence: str | None
    conditions: tuple[Condition, ...]
    mattering: tuple[Condition, ...]
    troubles: tuple[PodTrouble, ...]
    starting: int
    events: tuple[Happened, ...]
    gaps: tuple[str, ...]

    @property
    def ready(self) -> bool:
        """Serves what is declared now."""
        return self.state is State.READY


def glance(snapshot: Snapshot) -> Glance:
    """The facts about one pool."""
    pool, now = snapshot.pool, snapshot.now
    metadata, status = pool["metadata"], pool.get("status") or {}
    found = conditions(status, now)
    ready = next((each for each in found if each.type == "Ready"), None)
    state = _state(metadata, status, found)
    return Glance(
        namespace=clean(metadata.get("namespace", "")),
        name=clean(metadata["name"]),
        age=ages.since(metadata.get("creationTimestamp"), now),
        generation=metadata.get("generation", 0),
        observed=status.get("observedGeneration", 0),
        state=state,
        reason=ready.reason if ready else "",
        message=ready.message if ready else "",
        since=ready.age if ready else None,
        declared=_declared(pool.get("spec") or {}),
        classes=tuple(_class(pool, name, now) for name in CLASSES),
        fence=status.get("enforcement"),
        conditions=found,
        mattering=mattering(found),
        troubles=troubles(snapshot.pods, now),
        starting=starting(snapshot.pods, now),
        events=lately(snapshot.events, pool, now),
        gaps=snapshot.gaps,
    )


def _state(
    metadata: Mapping[str, Any], status: Mapping[str, Any], found: tuple[Condition, ...]
) -> State:
    known = {each.type: each for each in found}
    ready, stalled = known.get("Ready"), known.get("Stalled")
    if "deletionTimestamp" in metadata:
        return State.DELETING
    if ready is None or status.get("observedGeneration", 0) < metadata.get("generation", 0):
        return State.UNSEEN
    if ready.status == "True":
        return State.READY
    if stalled is not None and stalled.status == "True":
        return State.STALLED
    return State.PROGRESSING if ready.reason in EXPECTED else State.FAILING


def _declared(spec: Mapping[str, Any]) -> Declared:
    model, accelerator = spec.get("model") or {}, spec.get("accelerator") or {}
    sharing = spec.get("sharing") or {}
    return Declared(
        model=clean(model.get("name", "?")),
        source=clean(model.get("source", "?")),
        dtype=clean(model.get("dtype", "")),
        max_model_len=model.get("maxModelLen"),
        accelerator=clean(accelerator.get("type", "nvidia")),
        count=accelerator.get("count", 1),
        memory=clean(accelerator.get("memory", "?")),
        topology=clean(spec.get("topology", "Split")),
        sharing=clean(sharing.get("mode", "")),
        minimum_fence=clean(sharing.get("minimumEnforcement", "Cooperative")),
        autoscaling=clean((spec.get("autoscaling") or {}).get("mode", "Off")),
    )


def _class(pool: Mapping[str, Any], name: str, now: datetime.datetime) -> ClassGlance:
    declared = ((pool.get("spec") or {}).get("pools") or {}).get(name) or {}
    seen = ((pool.get("status") or {}).get("pools") or {}).get(name) or {}
    return ClassGlance(
        name=name,
        ready=seen.get("readyReplicas", 0),
        desired=seen.get("desiredReplicas", declared.get("replicas", 1)),
        updated=seen.get("updatedReplicas", 0),
        quota=clean(declared.get("vram", "?")),
        vram=_vram(seen.get("vram")),
        ttft_ms=seen.get("ttftP99Ms"),
        ttft_window=seen.get("ttftWindowSeconds"),
        target_ms=declared.get("ttftP99Ms"),
        scaled=clean(seen.get("lastScaleReason", "")),
        scaled_age=ages.since(seen.get("lastScaleTime"), now),
    )


def _vram(shown: Mapping[str, str] | None) -> Vram | None:
    try:
        parts = {key: to_bytes((shown or {})[key]) for key in ("quota", "weights", "kv", "used")}
    except (KeyError, QuantityError):
        return None
    return Vram(**parts)
