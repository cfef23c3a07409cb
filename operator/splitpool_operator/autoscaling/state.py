"""What does the control law know beside the signals: bounds, what runs, the past, the pace."""

from dataclasses import dataclass

from splitpool_operator.autoscaling.signals import Signals


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How fast replicas may move; all in seconds."""

    # Over which rates and quantiles are measured.
    window: float = 120.0
    # Between two steps out while the target is missed by far; or a worker's start, if longer.
    cooldown: float = 120.0
    # Between a change and any that noise around the target could ask for.
    settle: float = 600.0
    # With little to do, before a step in.
    quiet: float = 600.0
    # Samples older than this say nothing.
    stale: float = 90.0

    @property
    def look(self) -> float:
        """Between two looks at a pool."""
        return min(15.0, self.quiet / 8)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The declared bounds of the replicas."""

    low: int
    high: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Outgrown:
    """At that many requests a second so many workers were too few."""

    replicas: int
    rate: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """One class at one moment; times are seconds ago, None where there was no such event."""

    limits: Limits
    replicas: int
    ready: int
    # Workers that no node has room for.
    unplaced: int = 0
    # The measured start of a worker.
    start: float | None = None
    scaled: float | None = None
    # When the operator last wrote the Deployment, for whatever reason.
    written: float | None = None
    outgrown: Outgrown | None = None
    # Requests that run together in one worker.
    slots: int = 1
    # Requests that routers hold back now, whatever Prometheus knows.
    waiting: int = 0
    signals: Signals | None = None
    # Why there are none.
    silence: str = "nothing is measured"
    # Of interactive: the TTFT target, None without one. Of batch: time for the backlog.
    target: float | None = None
    deadline: float = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """A pool at one moment; batch is None where workers serve both classes."""

    interactive: Situation
    batch: Situation | None
    # The most batch workers that fit the GPU budget beside 0, 1, 2, ... interactive ones.
    room: tuple[int, ...]

    def beside(self, interactive: int) -> int:
        """Batch workers that fit beside so many interactive ones; -1 if those do not fit."""
        return self.room[interactive] if 0 <= interactive < len(self.room) else -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """What a class should have, and why: a constant word and a sentence."""

    replicas: int
    reason: str
    text: str
    # What was too much for the workers before a step out.
    outgrown: Outgrown | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What a pool should have."""

    interactive: Move
    batch: Move | None
