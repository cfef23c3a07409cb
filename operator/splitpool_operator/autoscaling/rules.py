"""Which rules hold for both classes? Each says what the class should have, or nothing."""

from collections.abc import Callable, Sequence

from splitpool_operator.autoscaling.signals import Signals, trouble
from splitpool_operator.autoscaling.state import Move, Pace, Situation
from splitpool_operator.reporting import reasons

Rule = Callable[[Situation, Signals, Pace], Move | None]

# The quiet window counts where so much of it was measured.
_OBSERVED = 0.9


def decide(now: Situation, pace: Pace, rules: Sequence[Rule], content: str) -> Move:
    """What needs no signal, else what the first rule that has an answer says of the signals; where
    none has, everything stays, for the class is content."""
    move = unmeasured(now, pace)
    if move is not None:
        return move
    seen = now.signals
    if seen is None:
        return blind(now, now.silence)
    why = trouble(seen, pace.stale)
    if why is not None:
        return blind(now, why)
    found = (rule(now, seen, pace) for rule in rules)
    steady = stay(now, reasons.STEADY, content)
    return next((move for move in found if move is not None), steady)


def stay(now: Situation, reason: str, text: str) -> Move:
    """No change."""
    return Move(replicas=now.replicas, reason=reason, text=text)


def unmeasured(now: Situation, pace: Pace) -> Move | None:
    """What needs no signal: the bounds, and a class at zero, which wakes for whoever waits."""
    replicas = min(max(now.replicas, now.limits.low), now.limits.high)
    if replicas != now.replicas:
        text = f"minReplicas is {now.limits.low} and maxReplicas {now.limits.high}"
        return Move(replicas=replicas, reason=reasons.BOUNDED, text=text)
    if now.replicas:
        return None
    if not now.waiting and not _measured_waiting(now.signals, pace):
        return stay(now, reasons.STEADY, "asleep, and no request waits")
    if not now.limits.high:
        return stay(now, reasons.AT_MAXIMUM, "requests wait and maxReplicas is 0")
    return Move(replicas=1, reason=reasons.WOKEN, text="requests wait and no worker runs")


def _measured_waiting(seen: Signals | None, pace: Pace) -> bool:
    return seen is not None and trouble(seen, pace.stale) is None and seen.waiting > 0


def blind(now: Situation, why: str) -> Move:
    """Without signals everything stays."""
    return stay(now, reasons.NO_SIGNALS, f"{why}, so replicas stay")


def crowded(now: Situation) -> Move | None:
    """What stands in the way of a step out, whatever the class scales on."""
    if now.unplaced:
        text = "more workers are wanted, and one has no room yet"
        return stay(now, reasons.WAITING_FOR_GPU, text)
    if now.ready < now.replicas:
        text = "more workers are wanted, and some are still starting"
        return stay(now, reasons.STARTING, text)
    if now.replicas >= now.limits.high:
        text = f"more workers are wanted, and maxReplicas is {now.limits.high}"
        return stay(now, reasons.AT_MAXIMUM, text)
    return None


def cooling(now: Situation, pace: Pace) -> Move | None:
    """The last step may not have shown its effect yet."""
    wait = _effect(now, pace)
    if all(ago is None or ago >= wait for ago in (now.scaled, now.written)):
        return None
    text = "more workers are wanted, and the last change has to show its effect first"
    return stay(now, reasons.COOLING_DOWN, text)


def undisturbed(now: Situation, seen: Signals, pace: Pace) -> bool:
    """Whether the quiet window was measured and began after the last change."""
    since = max(pace.quiet, _effect(now, pace))
    changed = now.scaled is not None and now.scaled < since
    measured = seen.observed >= _OBSERVED * pace.quiet
    return measured and not changed


def _effect(now: Situation, pace: Pace) -> float:
    """Seconds until a change shows: the cooldown, or a worker's start where that is longer."""
    return max(pace.cooldown, now.start or 0.0)
