"""The control law, case by case: what moves, what holds, and the reason that is given."""

import math
from dataclasses import replace
from typing import Any

import pytest

from splitpool_operator.autoscaling.signals import Signals
from splitpool_operator.autoscaling.state import Limits, Outgrown, Situation
from unit.scaling_scenes import CALM, LATE, batch, decided, interactive

BUSY = replace(CALM, backlog=2e6, peak_backlog=2e6, throughput=1000, running=8, peak_running=8)


def first(now: Situation) -> tuple[int, str]:
    """What becomes of an interactive class with all the room in the world."""
    move = decided(now, None, room=(0,) * 9).interactive
    return move.replicas, move.reason


def second(now: Situation) -> tuple[int, str]:
    """What becomes of a batch class beside two interactive workers on many GPUs."""
    move = decided(interactive(), now, room=(16,) * 5).batch
    assert move is not None
    return move.replicas, move.reason


def test_calm_pools_stay() -> None:
    assert first(interactive(replicas=1)) == (1, "Steady")
    assert second(batch(replicas=0)) == (0, "Steady")


def test_late_first_tokens_that_wait_add_a_worker() -> None:
    assert first(interactive(signals=LATE)) == (3, "ScaledOut")


def test_many_waiting_requests_add_as_many_workers_again_at_most() -> None:
    crowd = replace(LATE, running=16, waiting=100)
    assert first(interactive(signals=crowd)) == (4, "ScaledOut")
    assert first(interactive(signals=crowd, replicas=1)) == (2, "ScaledOut")


def test_the_reason_has_the_figures() -> None:
    text = decided(interactive(signals=replace(LATE, refused=0.4)), None, room=(0,) * 9)
    assert text.interactive.text == (
        "SplitpoolTTFTP99High fires, 80% of first tokens are in time, p99 of waiting is 1.9 s, "
        "0.4 requests/s are turned away"
    )


def test_where_prefill_dominates_more_replicas_do_not_help() -> None:
    slow = replace(LATE, queue=0.05, service=1.9)
    assert first(interactive(signals=slow)) == (2, "MoreReplicasDoNotHelp")


def test_a_pool_that_sheds_everything_scales_although_no_first_token_is_measured() -> None:
    nothing = replace(LATE, within=0, ttft=None, queue=None, service=None, running=0, waiting=0)
    assert first(interactive(signals=replace(nothing, refused=2))) == (3, "ScaledOut")
    assert first(interactive(signals=replace(nothing, waiting=9))) == (3, "ScaledOut")
    assert first(interactive(signals=nothing)) == (2, "NoSignals")
    assert first(interactive(signals=replace(nothing, rate=0, refused=2))) == (3, "ScaledOut")


@pytest.mark.parametrize(
    ("signals", "text"),
    [
        (None, "nothing is measured"),
        (replace(LATE, age=91), "older than 90 s"),
        (replace(LATE, age=math.inf), "not a number"),
        (replace(LATE, rate=math.nan), "not a number"),
        (replace(LATE, ttft=math.nan), "not a number"),
        (replace(LATE, backlog=math.inf), "not a number"),
    ],
)
def test_missing_stale_and_senseless_signals_hold(signals: Signals | None, text: str) -> None:
    held = decided(interactive(signals=signals), batch(signals=signals))
    assert held.batch is not None
    for move in (held.interactive, held.batch):
        assert (move.replicas, move.reason) == (2, "NoSignals")
        assert text in move.text


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"unplaced": 1, "ready": 1}, "WaitingForGPU"),
        ({"ready": 1}, "WorkersStarting"),
        ({"replicas": 4}, "AtMaximum"),
        ({"scaled": 119.0}, "CoolingDown"),
        ({"written": 119.0}, "CoolingDown"),
        ({"scaled": 200.0, "start": 300.0}, "CoolingDown"),
    ],
)
def test_what_stands_in_the_way_of_a_step_out(changes: dict[str, Any], reason: str) -> None:
    now = interactive(signals=LATE, **changes)
    assert first(now) == (now.replicas, reason)


def test_a_small_miss_waits_longer_for_the_last_change_than_a_big_one() -> None:
    small = replace(LATE, within=1.9)
    assert first(interactive(signals=small, scaled=599.0)) == (2, "CoolingDown")
    assert first(interactive(signals=small, scaled=600.0)) == (3, "ScaledOut")
    assert first(interactive(signals=LATE, scaled=120.0)) == (3, "ScaledOut")


def test_an_alert_that_only_fires_on_adds_nothing() -> None:
    met = replace(LATE, within=2)
    assert first(interactive(signals=met)) == (2, "Steady")
    over = replace(met, rate=0, within=0, waiting=0)
    assert first(interactive(signals=over)) == (2, "Steady")


def test_without_a_target_nothing_scales_on_ttft() -> None:
    assert first(interactive(signals=LATE, target=None)) == (2, "Steady")


def test_a_quiet_window_takes_one_worker_away() -> None:
    assert first(interactive()) == (1, "ScaledIn")
    assert first(interactive(replicas=4)) == (3, "ScaledIn")
    assert first(interactive(limits=Limits(low=2, high=4))) == (2, "Steady")


@pytest.mark.parametrize(
    "changes",
    [
        {"scaled": 599.0},
        {"waiting": 1},
        {"signals": replace(CALM, fired=True)},
        {"signals": replace(CALM, peak_waiting=1)},
        {"signals": replace(CALM, observed=500)},
        {"signals": replace(CALM, within=1.9)},
        {"signals": replace(CALM, peak_running=6)},
        {"outgrown": Outgrown(replicas=1, rate=2.0), "signals": replace(CALM, peak_rate=1.7)},
    ],
)
def test_what_keeps_the_workers(changes: dict[str, Any]) -> None:
    assert first(interactive(**changes)) == (2, "Steady")


def test_a_rate_that_was_too_much_before_is_remembered() -> None:
    out = decided(interactive(signals=LATE), None, room=(0,) * 9).interactive
    assert out.outgrown == Outgrown(replicas=2, rate=2)
    carried = replace(CALM, peak_rate=1.5)
    assert first(interactive(outgrown=Outgrown(replicas=1, rate=2.0), signals=carried))[0] == 1


def test_a_class_at_zero_wakes_for_whoever_waits_even_without_signals() -> None:
    asleep = batch(replicas=0, signals=None)
    assert second(asleep) == (0, "Steady")
    assert second(replace(asleep, waiting=1)) == (1, "Woken")
    assert second(replace(asleep, signals=replace(CALM, waiting=1))) == (1, "Woken")
    assert second(replace(asleep, waiting=1, limits=Limits(low=0, high=0))) == (0, "AtMaximum")


def test_bounds_that_were_changed_hold_at_once() -> None:
    assert first(interactive(limits=Limits(low=3, high=4), signals=None)) == (3, "WithinBounds")
    assert second(batch(limits=Limits(low=0, high=1), signals=None)) == (1, "WithinBounds")


def test_a_backlog_beyond_its_deadline_adds_batch_workers() -> None:
    wide = Limits(low=0, high=16)
    assert second(batch(limits=wide, signals=BUSY)) == (4, "ScaledOut")
    assert second(batch(limits=wide, signals=replace(BUSY, backlog=7e5))) == (3, "ScaledOut")
    assert second(batch(limits=wide, signals=replace(BUSY, backlog=5e5))) == (2, "Steady")
    assert second(batch(limits=wide, signals=BUSY, scaled=100.0)) == (2, "CoolingDown")
    assert second(batch(limits=wide, signals=replace(BUSY, throughput=0))) == (2, "NoSignals")


def test_batch_never_scales_on_ttft() -> None:
    assert second(batch(signals=replace(LATE, backlog=100, peak_backlog=1e6, throughput=1000)))[
        1
    ] == ("Steady")


def test_an_idle_batch_class_goes_to_its_minimum_a_working_one_step_by_step() -> None:
    assert second(batch()) == (0, "ScaledIn")
    assert second(batch(limits=Limits(low=1, high=4), replicas=3)) == (1, "ScaledIn")
    little = replace(BUSY, backlog=1000, peak_backlog=1000)
    assert second(batch(limits=Limits(low=0, high=4), replicas=4, signals=little)) == (
        3,
        "ScaledIn",
    )
    assert second(batch(replicas=1, signals=little)) == (1, "Steady")
    assert second(batch(scaled=599.0)) == (2, "Steady")


def test_interactive_takes_from_batch_down_to_its_floor() -> None:
    taken = decided(interactive(signals=LATE), batch(signals=BUSY))
    assert taken.batch is not None
    assert (taken.interactive.replicas, taken.batch.replicas) == (3, 1)
    assert taken.batch.reason == "GaveWay"
    held = decided(interactive(signals=LATE), batch(limits=Limits(low=2, high=2), signals=BUSY))
    assert held.batch is not None
    assert (held.interactive.replicas, held.interactive.reason) == (2, "WaitingForGPU")
    assert held.batch.replicas == 2


def test_batch_gets_back_what_interactive_no_longer_needs_and_never_takes() -> None:
    squeezed = batch(replicas=1, signals=BUSY)
    still = decided(interactive(replicas=3, scaled=10.0), squeezed)
    assert still.batch is not None
    assert (still.interactive.replicas, still.batch.replicas) == (3, 1)
    assert still.batch.reason == "WaitingForGPU"
    back = decided(interactive(replicas=3), squeezed)
    assert back.batch is not None
    assert (back.interactive.replicas, back.batch.replicas) == (2, 2)


def test_batch_does_not_grow_while_interactive_waits_for_room() -> None:
    starved = interactive(signals=LATE, unplaced=1, ready=1)
    held = decided(starved, batch(replicas=1, signals=BUSY))
    assert held.batch is not None
    assert (held.batch.replicas, held.batch.reason) == (1, "WaitingForGPU")
