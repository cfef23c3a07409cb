"""What the control law keeps to in whatever situation: budget, bounds, pace, and a reason."""

import itertools
import math
from dataclasses import replace

from hypothesis import example, given, settings
from hypothesis import strategies as st

from splitpool_operator.autoscaling.law import decide
from splitpool_operator.autoscaling.signals import Signals
from splitpool_operator.autoscaling.state import Decision, Limits, Outgrown, Pace, Scene, Situation
from splitpool_operator.planning import packing
from unit.scaling_scenes import CALM, PACE, batch, interactive

_TICK = 15.0
_SOME = st.floats(0, 1e7, allow_nan=False)
_SECONDS = st.one_of(st.none(), st.floats(0, 5000, allow_nan=False))


@st.composite
def signals(draw: st.DrawFn) -> Signals:
    """Anything that could be measured, sensible."""
    counts, seconds = st.one_of(st.just(0.0), _SOME), _SECONDS
    return draw(
        st.builds(
            Signals,
            age=st.floats(0, 200),
            observed=st.floats(0, 700),
            firing=st.booleans(),
            fired=st.booleans(),
            rate=counts,
            within=counts,
            peak_rate=counts,
            refused=counts,
            ttft=seconds,
            queue=seconds,
            service=seconds,
            waiting=counts,
            peak_waiting=counts,
            running=counts,
            peak_running=counts,
            backlog=counts,
            peak_backlog=counts,
            throughput=counts,
        )
    )


@st.composite
def situations(draw: st.DrawFn, limits: Limits) -> Situation:
    """Anything that a class could be in."""
    replicas = draw(st.integers(0, 6))
    outgrown = st.builds(Outgrown, replicas=st.integers(1, 6), rate=_SOME)
    return Situation(
        limits=limits,
        replicas=replicas,
        ready=draw(st.integers(0, replicas)),
        unplaced=draw(st.integers(0, 1)),
        start=draw(_SECONDS),
        scaled=draw(_SECONDS),
        written=draw(_SECONDS),
        outgrown=draw(st.one_of(st.none(), outgrown)),
        slots=draw(st.integers(1, 64)),
        waiting=draw(st.integers(0, 3)),
        signals=draw(st.one_of(st.none(), signals())),
        target=draw(st.one_of(st.none(), st.just(0.3))),
    )


@st.composite
def scenes(draw: st.DrawFn) -> Scene:
    """A pool whose bounds fit its GPUs, as the declaration's rules make sure."""
    beside = sorted(draw(st.lists(st.integers(0, 3), min_size=2, max_size=4)), reverse=True)
    gpus = draw(st.integers(1, 3))
    room = tuple(
        packing.most_batch(gpus=gpus, interactive=n, most_beside=beside)
        for n in range(gpus * (len(beside) - 1) + 1)
    )
    high = draw(st.integers(0, len(room) - 1))
    low = draw(st.integers(0, high))
    floor = draw(st.integers(0, room[high]))
    most = draw(st.integers(floor, max(floor, room[low])))
    return Scene(
        interactive=draw(situations(Limits(low=low, high=high))),
        batch=draw(st.one_of(st.none(), situations(Limits(low=floor, high=most)))),
        room=room,
    )


def moves(of: Scene, to: Decision) -> list[tuple[Situation, int, str, str]]:
    """Of each class what it was, what becomes of it, and why."""
    both = [(of.interactive, to.interactive)]
    if of.batch is not None and to.batch is not None:
        both.append((of.batch, to.batch))
    return [(now, move.replicas, move.reason, move.text) for now, move in both]


def within(of: Scene) -> bool:
    """Whether what runs is within the bounds and the budget."""
    batch = of.batch.replicas if of.batch else 0
    bounds = [each.limits.low <= each.replicas <= each.limits.high for each in _classes(of)]
    return all(bounds) and of.beside(of.interactive.replicas) >= batch


def _classes(of: Scene) -> list[Situation]:
    return [of.interactive] + ([of.batch] if of.batch else [])


@given(scenes())
def test_never_over_the_budget_never_out_of_bounds_and_always_with_a_reason(of: Scene) -> None:
    made = decide(of, PACE)
    batch = made.batch.replicas if made.batch else 0
    assert of.beside(made.interactive.replicas) >= batch
    for now, replicas, reason, text in moves(of, made):
        assert now.limits.low <= replicas <= now.limits.high
        assert reason
        assert text


_SENSELESS = [
    made
    for nonsense in (math.nan, math.inf, -math.inf)
    for made in (
        replace(CALM, rate=nonsense),
        replace(CALM, age=nonsense),
        replace(CALM, ttft=nonsense),
    )
]


@given(scenes(), st.sampled_from([None, replace(CALM, age=1000), *_SENSELESS]))
def test_without_signals_nothing_moves_that_is_within_its_bounds(
    of: Scene, seen: Signals | None
) -> None:
    of = replace(
        of,
        interactive=replace(of.interactive, signals=seen, waiting=0),
        batch=replace(of.batch, signals=seen, waiting=0) if of.batch else None,
    )
    if within(of):
        for now, replicas, reason, _ in moves(of, decide(of, PACE)):
            assert replicas == now.replicas
            assert reason == "NoSignals" or not now.replicas


# A worker starts for longer than the quiet window lasts, and is not there yet.
SLOW_START = Scene(
    interactive=interactive(limits=Limits(low=0, high=0), replicas=0),
    batch=batch(limits=Limits(low=0, high=1), replicas=1, ready=0, start=601.0, scaled=600.0),
    room=(1, 0),
)


@given(scenes())
@example(SLOW_START)
def test_one_step_per_cooldown(of: Scene) -> None:
    """Only who wakes, gives way or is out of bounds moves so soon after a change."""
    for now, replicas, reason, _ in moves(of, decide(of, PACE)):
        wait = max(PACE.cooldown, now.start or 0)
        if now.scaled is not None and now.scaled < wait and reason.startswith("Scaled"):
            assert replicas == now.replicas
        if reason == "ScaledOut":
            assert now.replicas < replicas <= 2 * now.replicas


@given(scenes())
def test_interactive_is_never_less_for_batch(of: Scene) -> None:
    if of.batch is None or not within(of):
        return
    calm = replace(of.batch, signals=CALM, waiting=0)
    asked = decide(of, PACE).interactive
    unasked = decide(replace(of, batch=calm), PACE).interactive
    assert asked.replicas == unasked.replicas


@given(scenes())
def test_what_was_decided_is_not_taken_back_at_once(of: Scene) -> None:
    """With the same signals and the change just made, replicas stay where they were put."""
    made = decide(of, PACE)

    def after(now: Situation, replicas: int) -> Situation:
        past = now if replicas == now.replicas else replace(now, scaled=0.0, written=0.0)
        return replace(past, replicas=replicas, ready=replicas, unplaced=0)

    pairs = zip(_classes(of), moves(of, made), strict=True)
    first, *rest = (after(now, replicas) for now, (_, replicas, _, _) in pairs)
    again = decide(replace(of, interactive=first, batch=rest[0] if rest else None), PACE)
    if made.interactive.replicas != of.interactive.replicas:
        assert again.interactive.replicas == made.interactive.replicas


@settings(max_examples=30)
@given(st.data())
def test_noise_around_the_target_moves_replicas_at_most_once_in_ten_minutes(
    data: st.DataObject,
) -> None:
    """An hour in which the share of timely first tokens and the alert move at random."""
    pace, now, changes = Pace(), interactive(replicas=2), list[float]()
    moment = st.tuples(st.booleans(), st.floats(0.95, 1), st.floats(0, 30))
    noise = data.draw(st.lists(moment, min_size=24, max_size=24))
    for tick in range(240):
        fires, met, load = noise[tick % 24]
        at = tick * _TICK
        seen = replace(CALM, firing=fires, fired=fires, within=2 * met, queue=1.0, running=load)
        scaled = at - changes[-1] if changes else None
        now = replace(now, signals=replace(seen, peak_running=load), scaled=scaled)
        move = decide(Scene(interactive=now, batch=None, room=(0,) * 5), pace).interactive
        if move.replicas != now.replicas:
            changes.append(at)
            now = replace(now, replicas=move.replicas, ready=move.replicas)
    assert all(later - earlier >= 600 for earlier, later in itertools.pairwise(changes))
