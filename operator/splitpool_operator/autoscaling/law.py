"""What should a pool have within its GPU budget? Interactive takes from batch, batch never back."""

from dataclasses import replace

from splitpool_operator.autoscaling import batch, interactive
from splitpool_operator.autoscaling.rules import stay
from splitpool_operator.autoscaling.state import Decision, Move, Pace, Scene, Situation
from splitpool_operator.reporting import reasons


def decide(scene: Scene, pace: Pace) -> Decision:
    """The replicas of both classes, each with its reason.

    Every move is within the declared bounds and, where the minima fit the budget, within it.
    """
    first = _placed(scene, interactive.wish(scene.interactive, pace))
    if scene.batch is None:
        return Decision(interactive=first, batch=None)
    room = scene.beside(first.replicas)
    second = _beside(scene.batch, batch.wish(scene.batch, pace), first, room=room)
    grows = second.replicas > scene.batch.replicas and second.reason != reasons.BOUNDED
    if grows and _wants_room(scene.interactive, first):
        text = "the backlog outlasts its deadline, and interactive waits for room"
        second = stay(scene.batch, reasons.WAITING_FOR_GPU, text)
    return Decision(interactive=first, batch=second)


def _placed(scene: Scene, wish: Move) -> Move:
    """As many of the wanted interactive workers as fit when batch gives way to its floor."""
    floor = scene.batch.limits.low if scene.batch else 0
    fitting = (n for n in range(wish.replicas, -1, -1) if scene.beside(n) >= floor)
    most = next(fitting, scene.interactive.limits.low)
    if most == wish.replicas:
        return wish
    if most == scene.interactive.replicas:
        text = "more workers are wanted, and the GPU budget is spent: batch has its minimum"
        return stay(scene.interactive, reasons.WAITING_FOR_GPU, text)
    if most < scene.interactive.replicas:
        return Move(replicas=most, reason=reasons.BOUNDED, text="more do not fit the GPU budget")
    return replace(wish, replicas=most)


def _beside(now: Situation, wish: Move, first: Move, *, room: int) -> Move:
    """The batch workers that fit beside the interactive ones."""
    if wish.replicas <= room:
        return wish
    if now.replicas > room:
        text = f"memory is needed for {first.replicas} interactive workers"
        return Move(replicas=max(room, 0), reason=reasons.GAVE_WAY, text=text)
    if now.replicas == room:
        text = "more workers are wanted, and the rest of the GPU budget is interactive's"
        return stay(now, reasons.WAITING_FOR_GPU, text)
    return replace(wish, replicas=room)


def _wants_room(now: Situation, first: Move) -> bool:
    """Whether interactive would take what batch is about to."""
    return bool(now.unplaced) or first.reason == reasons.WAITING_FOR_GPU
