"""How many batch workers does the backlog ask for? Rules in order; the first decides.

They grow where the backlog would outlast its deadline, never for TTFT, and shrink, also to zero,
when a quiet window needed fewer.
"""

import math

from splitpool_operator.autoscaling import rules
from splitpool_operator.autoscaling.rules import Rule, stay
from splitpool_operator.autoscaling.signals import Signals
from splitpool_operator.autoscaling.state import Move, Pace, Situation
from splitpool_operator.reporting import reasons


def wish(now: Situation, pace: Pace) -> Move:
    """What the class should have, whatever the budget."""
    return rules.decide(now, pace, RULES, "the backlog keeps its deadline")


def behind(now: Situation, seen: Signals, pace: Pace) -> Move | None:
    """The backlog outlasts its deadline: a step out, or why not."""
    needed = _needed(now, seen, seen.backlog)
    if needed is not None and needed <= now.replicas:
        return None
    obstacle = rules.crowded(now) or rules.cooling(now, pace)
    if obstacle is not None:
        return obstacle
    if needed is None:
        text = "there is a backlog and no throughput is measured, so replicas stay"
        return stay(now, reasons.NO_SIGNALS, text)
    text = (
        f"a backlog of {seen.backlog:.2g} tokens at {seen.throughput:.2g} tokens/s outlasts its "
        f"deadline of {now.deadline:g} s"
    )
    replicas = min(needed, 2 * now.replicas, now.limits.high)
    return Move(replicas=replicas, reason=reasons.SCALED_OUT, text=text)


def ahead(now: Situation, seen: Signals, pace: Pace) -> Move | None:
    """Fewer workers were enough for long: all but the minimum go when idle, else one."""
    if now.replicas <= now.limits.low or not rules.undisturbed(now, seen, pace):
        return None
    if not seen.peak_backlog and not seen.peak_running:
        text = f"nothing to do for {pace.quiet:g} s"
        return Move(replicas=now.limits.low, reason=reasons.SCALED_IN, text=text)
    needed = _needed(now, seen, seen.peak_backlog)
    if needed is None or max(needed, 1) >= now.replicas:
        return None
    text = f"for {pace.quiet:g} s fewer workers would have kept the deadline"
    return Move(replicas=now.replicas - 1, reason=reasons.SCALED_IN, text=text)


RULES: tuple[Rule, ...] = (behind, ahead)


def _needed(now: Situation, seen: Signals, backlog: float) -> int | None:
    """Workers that finish so many tokens in time; None where no throughput was measured."""
    if not backlog:
        return 0
    if seen.throughput <= 0 or not now.ready:
        return None
    # More than the most is the most.
    workers = backlog / (seen.throughput / now.ready * now.deadline)
    return math.ceil(min(workers, now.limits.high + 1.0))
