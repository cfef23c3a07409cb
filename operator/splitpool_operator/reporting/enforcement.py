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
    # By what the worker saw it, or why it saw no stronger one.
    seen: str = ""
    vram: Mapping[str, Vram] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenFence:
    """A fence that workers have seen working, and what they say of it."""

    enforcement: str
    seen: str

    def __str__(self) -> str:
        return f"{self.enforcement} ({self.seen})" if self.seen else self.enforcement


def weakest(reports: Iterable[WorkerReport]) -> SeenFence | None:
    """The weakest of the fences; one that is not known is cooperative at best. Of several equal
    ones always the same is taken: the status quotes it."""
    fences = [
        SeenFence(
            enforcement=each.enforcement if each.enforcement in STRENGTH else "Cooperative",
            seen=each.seen,
        )
        for each in reports
    ]
    return max(fences, key=lambda each: (_rank(each.enforcement), each.seen), default=None)


def weaker(fence: str, minimum: str) -> bool:
    """Whether a fence does not reach the minimum."""
    return _rank(fence) > _rank(minimum)


def _rank(fence: str) -> int:
    return STRENGTH.index(fence)
