"""Pools at one moment, for tests of the control law: calm ones, and changes to them."""

from dataclasses import replace
from typing import Any

from splitpool_operator.autoscaling.law import decide
from splitpool_operator.autoscaling.signals import Signals
from splitpool_operator.autoscaling.state import Decision, Limits, Pace, Scene, Situation

PACE = Pace()
CALM = Signals(age=5, observed=600, rate=2, within=2, ttft=0.1, queue=0.01, service=0.09)
# A fifth of the first tokens is late, because they wait.
LATE = replace(
    CALM, firing=True, fired=True, within=1.6, ttft=2, queue=1.9, service=0.1, running=8, waiting=2
)
# Room of two GPUs that hold one interactive and one batch worker each, or two interactive ones.
ROOM = (2, 2, 2, 1, 0)


def interactive(**changes: Any) -> Situation:
    """Two workers between one and four, with nothing to do."""
    of = Situation(
        limits=Limits(low=1, high=4), replicas=2, ready=2, slots=8, signals=CALM, target=0.3
    )
    return _changed(of, changes)


def batch(**changes: Any) -> Situation:
    """Two workers between none and two, with nothing to do."""
    of = Situation(limits=Limits(low=0, high=2), replicas=2, ready=2, slots=64, signals=CALM)
    return _changed(of, changes)


def decided(
    first: Situation, second: Situation | None, room: tuple[int, ...] = ROOM, pace: Pace = PACE
) -> Decision:
    """What becomes of a pool."""
    return decide(Scene(interactive=first, batch=second, room=room), pace)


def _changed(of: Situation, changes: dict[str, Any]) -> Situation:
    """`ready` follows the replicas unless it is given."""
    if "replicas" in changes:
        changes.setdefault("ready", changes["replicas"])
    return replace(of, **changes)
