"""How many interactive workers does the TTFT target ask for? Rules in order; the first decides.

They grow where the alert fires and queueing is what makes first tokens late, and shrink after a
quiet window whose load fewer workers carry.
"""

import math

from splitpool_operator.autoscaling import rules
from splitpool_operator.autoscaling.rules import Rule, stay
from splitpool_operator.autoscaling.signals import OBJECTIVE, Signals
from splitpool_operator.autoscaling.state import Move, Outgrown, Pace, Situation
from splitpool_operator.reporting import reasons

ALERT = "SplitpoolTTFTP99High"
# Fewer workers must stay under this share of their slots, and of the rate that was too much.
_ROOMY = 0.7
_CARRIED = 0.8


def wish(now: Situation, pace: Pace) -> Move:
    """What the class should have, whatever the budget."""
    return rules.decide(now, pace, RULES, f"{ALERT} does not fire")


def aimless(now: Situation, seen: Signals, pace: Pace) -> Move | None:
    """Without a target there is nothing to scale on."""
    if now.target is not None:
        return None
    return stay(now, reasons.STEADY, "no ttftP99Ms is declared, so replicas stay")


def overloaded(now: Situation, seen: Signals, pace: Pace) -> Move | None:
    """The target is missed: a step out, or why not."""
    if not seen.firing or not seen.missing:
        return None
    return (
        _no_queueing(now, seen) or rules.crowded(now) or _too_soon(now, seen, pace)
    ) or _step_out(now, seen)


def calm(now: Situation, seen: Signals, pace: Pace) -> Move | None:
    """Little to do for long, and fewer workers carry it: a step in."""
    disturbed = seen.fired or seen.peak_waiting or now.waiting
    if now.replicas <= now.limits.low or disturbed:
        return None
    if not rules.undisturbed(now, seen, pace) or not _fewer_carry(now, seen):
        return None
    text = f"no alert and no queue for {pace.quiet:g} s, and fewer workers carry the load"
    return Move(replicas=now.replicas - 1, reason=reasons.SCALED_IN, text=text)


RULES: tuple[Rule, ...] = (aimless, overloaded, calm)


def _no_queueing(now: Situation, seen: Signals) -> Move | None:
    if seen.queueing:
        return None
    if seen.queueing is None:
        text = f"{ALERT} fires and no first token was measured, so replicas stay"
        return stay(now, reasons.NO_SIGNALS, text)
    text = (
        "first tokens are late, but not because they wait: prefill or the network takes most of "
        "the time, and more replicas will not help. Shorten prompts, raise prefillChunk or the "
        "target, or use a faster GPU"
    )
    return stay(now, reasons.MORE_REPLICAS_DO_NOT_HELP, text)


def _too_soon(now: Situation, seen: Signals, pace: Pace) -> Move | None:
    unsettled = now.scaled is not None and now.scaled < pace.settle
    if seen.severe or not unsettled:
        return rules.cooling(now, pace)
    text = f"the target is missed by little, and the last change is not {pace.settle:g} s old"
    return stay(now, reasons.COOLING_DOWN, text)


def _step_out(now: Situation, seen: Signals) -> Move:
    """One worker more, or as many as the requests that run and wait need, at most as many again."""
    needed = math.ceil((seen.running + max(seen.waiting, now.waiting)) / now.slots)
    step = min(max(needed - now.replicas, 1), now.replicas)
    replicas = min(now.replicas + step, now.limits.high)
    outgrown = Outgrown(replicas=now.replicas, rate=seen.rate) if seen.rate else None
    return Move(replicas=replicas, reason=reasons.SCALED_OUT, text=_why(seen), outgrown=outgrown)


def _why(seen: Signals) -> str:
    share = "" if seen.share is None else f", {seen.share:.0%} of first tokens are in time"
    waits = "" if seen.queue is None else f", p99 of waiting is {seen.queue:.2g} s"
    refused = f", {seen.refused:.2g} requests/s are turned away" if seen.refused else ""
    return f"{ALERT} fires{share}{waits}{refused}"


def _fewer_carry(now: Situation, seen: Signals) -> bool:
    left = now.replicas - 1
    if seen.share is not None and seen.share < OBJECTIVE:
        return False
    if seen.peak_running > _ROOMY * now.slots * left:
        return False
    past = now.outgrown
    if past is None or left > past.replicas:
        return True
    return seen.peak_rate <= _CARRIED * past.rate * left / past.replicas
