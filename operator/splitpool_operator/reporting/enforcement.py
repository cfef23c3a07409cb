"""Which fence around the quotas have the workers seen working, and is it strong enough?"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

# Strongest first.
STRENGTH = ("Hardware", "Driver", "MPS", "Cgroup", "Interposer", "Cooperative")


@dataclass(frozen=True, slots=True, kw_only=True)
class Vram:
    """What a worker says of one class's quota, in bytes."""

    quota: int
    weights: int
    kv: int
    used: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerReport:
    """What a worker says of itself at /ready."""

    enforcement: str
    vram: Mapping[str, Vram] = field(default_factory=dict)


def weakest(fences: Iterable[str]) -> str | None:
    """The weakest of the fences; one that is not known is cooperative at best."""
    ranks = [STRENGTH.index(each if each in STRENGTH else "Cooperative") for each in fences]
    return STRENGTH[max(ranks)] if ranks else None


def weaker(fence: str, minimum: str) -> bool:
    """Whether a fence does not reach the minimum."""
    return STRENGTH.index(fence) > STRENGTH.index(minimum)
