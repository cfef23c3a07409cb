"""The InferencePools that the router serves, as far as routing needs them.

Read leniently: the operator has validated and filled them in.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, NamedTuple

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from splitpool_router.placing.classify import LatencyClass


class ResumeMode(StrEnum):
    """Which streams outlive their connection."""

    ON_REQUEST = "OnRequest"
    ALWAYS = "Always"
    OFF = "Off"


class Lenient(BaseModel):
    """camelCase outside, snake_case inside; what routing does not need is ignored."""

    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, extra="ignore", frozen=True
    )


class ClassSpec(Lenient):
    """`spec.pools.CLASS`."""

    replicas: int = 1
    queue_timeout_seconds: float
    drain_seconds: float
    max_queue_tokens: int | None = None
    ttft_p99_ms: float | None = None
    objective: str | None = None


class InteractiveSpec(ClassSpec):
    """`spec.pools.interactive`."""

    queue_timeout_seconds: float = 10
    drain_seconds: float = 120
    ttft_p99_ms: float | None = 500


class BatchSpec(ClassSpec):
    """`spec.pools.batch`."""

    queue_timeout_seconds: float = 600
    drain_seconds: float = 600


class _Pools(Lenient):
    interactive: InteractiveSpec | None = None
    batch: BatchSpec | None = None


class _Model(Lenient):
    name: str


class _Resume(Lenient):
    mode: ResumeMode = ResumeMode.ON_REQUEST
    window_seconds: float = 30


class _Routing(Lenient):
    default_class: LatencyClass = LatencyClass.INTERACTIVE
    spill_to_batch: bool = False
    forward_headers: tuple[str, ...] = ()


class _Scale(Lenient):
    max_replicas: int | None = None


class _Autoscaling(Lenient):
    mode: str = "Off"
    interactive: _Scale = _Scale()
    batch: _Scale = _Scale()


class _Spec(Lenient):
    model: _Model
    topology: str = "Split"
    pools: _Pools
    resume: _Resume = _Resume()
    routing: _Routing = _Routing()
    autoscaling: _Autoscaling = _Autoscaling()


class _Metadata(Lenient):
    name: str
    namespace: str = "default"
    generation: int = 0
    creation_timestamp: datetime | None = None


class PoolObject(Lenient):
    """An InferencePool object, `metadata` and `spec`."""

    metadata: _Metadata
    spec: _Spec = Field()


class PoolKey(NamedTuple):
    """What names a pool."""

    namespace: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """One pool, ready to be routed to."""

    key: PoolKey
    generation: int
    created: datetime
    model: str
    default_class: LatencyClass
    spill_to_batch: bool
    forward_headers: tuple[str, ...]
    resume_mode: ResumeMode
    resume_window: float
    classes: Mapping[LatencyClass, ClassSpec]
    can_have_workers: frozenset[LatencyClass]

    @property
    def objectives(self) -> Mapping[str, LatencyClass]:
        """The objective names that stand for a class."""
        return {spec.objective: cls for cls, spec in self.classes.items() if spec.objective}


def from_object(manifest: Mapping[str, Any]) -> Pool:
    """The pool of an InferencePool object; raises pydantic's ValidationError."""
    parsed = PoolObject.model_validate(manifest)
    meta, spec = parsed.metadata, parsed.spec
    classes: dict[LatencyClass, ClassSpec] = {}
    if spec.pools.interactive is not None:
        classes[LatencyClass.INTERACTIVE] = spec.pools.interactive
    if spec.pools.batch is not None:
        classes[LatencyClass.BATCH] = spec.pools.batch
    return Pool(
        key=PoolKey(namespace=meta.namespace, name=meta.name),
        generation=meta.generation,
        created=_aware(meta.creation_timestamp),
        model=spec.model.name,
        default_class=spec.routing.default_class,
        spill_to_batch=spec.routing.spill_to_batch,
        forward_headers=spec.routing.forward_headers,
        resume_mode=spec.resume.mode,
        resume_window=spec.resume.window_seconds,
        classes=classes,
        can_have_workers=frozenset(cls for cls in classes if _can_have_workers(spec, cls)),
    )


def serving(pools: Iterable[Pool]) -> dict[str, Pool]:
    """Model name -> the pool that serves it: of two with one name, the older."""
    by_age = sorted(pools, key=lambda pool: (pool.created, pool.key.namespace, pool.key.name))
    chosen: dict[str, Pool] = {}
    for pool in by_age:
        chosen.setdefault(pool.model, pool)
    return chosen


def _can_have_workers(spec: _Spec, cls: LatencyClass) -> bool:
    """Whether a worker of the class can ever come: declared, or woken from zero."""
    owner = LatencyClass.INTERACTIVE if spec.topology == "Shared" else cls
    declared = getattr(spec.pools, owner.value)
    if declared is not None and declared.replicas > 0:
        return True
    scale: _Scale = getattr(spec.autoscaling, owner.value)
    return spec.autoscaling.mode != "Off" and (scale.max_replicas or 0) > 0


def _aware(moment: datetime | None) -> datetime:
    """A creation time that compares; one that is missing counts as the oldest."""
    if moment is None:
        return datetime.min.replace(tzinfo=UTC)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
