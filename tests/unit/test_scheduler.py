"""How an iteration is composed: order, budget, chunks, admission."""

import gc
import sys

import pytest

from scheduling import INTERACTIVE, Drive, class_limits, request, worker_limits
from splitpool_worker.schedule.sequence import Drawn


def test_a_prompt_is_prefilled_in_chunks_while_another_waits() -> None:
    drive = Drive(worker_limits())
    drive.add(request("long", prompt=100), request("other", prompt=50))

    rows = [drive.step() for _ in range(4)]
    assert rows[:2] == [{"long": 32, "other": 32}, {"long": 32, "other": 18}]
    assert rows[2:] == [{"other": 1, "long": 36}, {"other": 1, "long": 1}]


def test_a_lone_prompt_takes_the_whole_budget() -> None:
    drive = Drive(worker_limits())
    drive.add(request("long", prompt=100))

    assert [drive.step(), drive.step()] == [{"long": 64}, {"long": 36}]


def test_decodes_come_out_of_the_same_budget() -> None:
    drive = Drive(worker_limits(class_limits(token_budget=20, prefill_chunk=100)))
    drive.add(request("a", out=50), request("b", out=50))
    drive.step()
    drive.add(request("long", prompt=100), request("next", prompt=100))

    assert drive.step() == {"a": 1, "b": 1, "long": 18}


def test_one_long_prompt_does_not_take_all_prefill_of_every_step() -> None:
    drive = Drive(worker_limits(class_limits(max_batch=8)))
    drive.add(request("long", prompt=600))
    for i in range(6):
        drive.add(request(f"short {i}", prompt=30, out=1))
    drive.run(steps=8)

    assert all(f"short {i}" in drive.finished for i in range(6))


def test_running_never_exceeds_max_batch() -> None:
    drive = Drive(worker_limits(class_limits(max_batch=3)))
    drive.add(*(request(str(i)) for i in range(10)))

    assert max(len(shares) for shares in drive.run()) == 3
    assert len(drive.finished) == 10


def test_admission_takes_blocks_for_the_whole_prompt() -> None:
    drive = Drive(worker_limits(class_limits(kv_blocks=30)))
    drive.add(request("first", prompt=80), request("second", prompt=80))
    drive.step()
    lane = drive.scheduler.lanes[INTERACTIVE]

    assert list(lane.running) == ["first"]
    assert lane.pool.used == 80 // 4


def test_admission_leaves_a_watermark_of_blocks_for_those_who_run() -> None:
    drive = Drive(worker_limits(class_limits(kv_blocks=10)))
    drive.add(request("running", prompt=20, out=1), request("exact", prompt=20, out=1))

    assert "exact" not in drive.step()
    assert "exact" in drive.step()


def test_a_head_that_does_not_fit_lets_others_pass_for_eight_iterations_and_no_longer() -> None:
    drive = Drive(worker_limits(class_limits(kv_blocks=20, max_batch=4)))
    drive.add(request("holder", prompt=40, out=200))
    drive.step()
    drive.add(request("big", prompt=60, out=1))
    passed = []
    for i in range(30):
        drive.add(request(f"small {i}", prompt=2, out=1))
        passed.append(f"small {i}" in drive.step())

    assert passed[:8] == [True] * 8
    assert not any(passed[8:20])


def test_the_reserved_blocks_go_to_the_one_that_was_skipped() -> None:
    drive = Drive(worker_limits(class_limits(kv_blocks=20, max_batch=4)))
    drive.add(request("holder", prompt=30, out=20))
    drive.step()
    drive.add(request("big", prompt=60, out=1))
    started: list[str] = []
    for i in range(40):
        drive.add(request(f"small {i}", prompt=8, out=4))
        started += drive.step()

    assert "big" in started[: started.index("small 9")]


def test_an_idle_class_starts_at_once() -> None:
    drive = Drive(worker_limits(class_limits(max_wait_s=100.0)))
    drive.add(request("first"))

    assert drive.step() == {"first": 1}


def test_while_it_runs_newcomers_are_gathered_up_to_max_wait() -> None:
    drive = Drive(worker_limits(class_limits(max_wait_s=3.0, max_batch=8)))
    drive.add(request("running", out=50))
    drive.step()
    drive.add(request("one"))
    drive.step()
    drive.add(request("two"))
    rows = [sorted(drive.step()) for _ in range(3)]

    assert rows == [["running"], ["running"], ["one", "running", "two"]]


def test_gathering_ends_as_soon_as_the_free_slots_can_be_filled() -> None:
    drive = Drive(worker_limits(class_limits(max_wait_s=100.0, max_batch=3)))
    drive.add(request("running", out=50))
    drive.step()
    drive.add(request("one"))
    assert sorted(drive.step()) == ["running"]
    drive.add(request("two"))
    assert sorted(drive.step()) == ["one", "running", "two"]


def test_continuous_mode_prefers_mates_of_similar_length() -> None:
    drive = Drive(worker_limits(class_limits(max_batch=2)))
    drive.add(request("running", out=20), request("also", out=1))
    drive.step()
    drive.add(request("long", out=500), request("similar", out=30))

    assert sorted(drive.step()) == ["running", "similar"]


def test_the_length_rule_never_leaves_a_slot_idle() -> None:
    drive = Drive(worker_limits(class_limits(max_batch=2)))
    drive.add(request("running", out=20))
    drive.step()
    drive.add(request("long", out=500))

    assert sorted(drive.step()) == ["long", "running"]


def test_the_length_rule_yields_to_age_after_eight_iterations() -> None:
    drive = Drive(worker_limits(class_limits(max_batch=2)))
    drive.add(request("running", out=200), request("also", out=1))
    drive.step()
    drive.add(request("long", out=900))
    drive.add(*(request(f"mate {i}", prompt=200, out=1) for i in range(40)))
    rows = drive.run(steps=100)
    before = [next(n for n in r if n.startswith("mate")) for r in rows[:90] if "long" not in r]

    assert len(set(before)) == 8


def test_static_mode_refuses_a_member_that_is_more_than_four_times_longer() -> None:
    drive = Drive(worker_limits(class_limits(max_batch=4), static=True))
    drive.add(
        request("a", prompt=10, out=10), request("long", prompt=10, out=71), request("b", out=60)
    )

    assert sorted(drive.step()) == ["a", "b"]


def test_static_mode_does_not_let_a_long_quiet_member_keep_streams_company() -> None:
    drive = Drive(worker_limits(class_limits(max_batch=4), static=True))
    drive.add(
        request("stream", out=20, stream=True),
        request("longer quiet", out=40),
        request("shorter quiet", out=10),
    )

    assert sorted(drive.step()) == ["shorter quiet", "stream"]


def test_static_mode_waits_for_members_until_the_oldest_has_waited_max_wait() -> None:
    drive = Drive(worker_limits(class_limits(max_batch=4, max_wait_s=2.5), static=True))
    drive.add(request("one"))
    assert drive.step() == {}
    assert drive.plans[-1].wake_at == 2.5
    drive.now = 1.0
    drive.add(request("two"))
    assert drive.step() == {}
    drive.now = 2.5
    assert sorted(drive.step()) == ["one", "two"]


def test_where_max_tokens_is_the_models_own_limit_the_observed_median_is_expected() -> None:
    drive = Drive(worker_limits(class_limits(max_batch=2)))
    drive.add(*(request(f"done {i}", out=10) for i in range(9)))
    drive.run()
    drive.add(request("running", out=12), request("also", out=1))
    drive.step()
    drive.add(request("far too long", out=500), request("unlimited", out=999))

    assert sorted(drive.step()) == ["running", "unlimited"]


def test_a_step_predicted_to_be_too_long_gets_fewer_prefill_tokens_but_always_some() -> None:
    drive = Drive(
        worker_limits(class_limits(token_budget=512, prefill_chunk=256), max_step_s=0.1),
        seconds=lambda plan: 0.01 + 0.001 * plan.tokens,
    )
    drive.add(request("a", prompt=900), request("b", prompt=900))
    drive.run(steps=12)
    assert [plan.tokens for plan in drive.plans[4:]] == pytest.approx([90] * 8, abs=20)

    drive.seconds = lambda plan: 1.0
    drive.run()
    assert drive.finished.keys() == {"a", "b"}
    assert all(plan.tokens >= 1 for plan in drive.plans)


def test_a_worker_that_makes_no_progress_names_the_head_of_the_queue_instead_of_spinning() -> None:
    drive = Drive(worker_limits(class_limits(kv_blocks=8)))
    lane = drive.scheduler.lanes[INTERACTIVE]
    lane.pool.take([], 8)
    drive.add(request("stuck", prompt=20))
    stuck = [drive.scheduler.plan(0.0).stuck for _ in range(20)]

    assert [s.id for s in stuck if s is not None] == ["stuck"]
    assert stuck.index(next(s for s in stuck if s)) == 15


def test_an_abort_between_plan_and_commit_leaves_no_output_and_no_block() -> None:
    drive = Drive(worker_limits())
    drive.add(request("a"), request("b"))
    plan = drive.scheduler.plan(0.0)
    drive.scheduler.drop("a")
    outputs = drive.scheduler.commit(plan, [Drawn(1), Drawn(2)], 1.0)

    assert [(o.request_id, o.token_id) for o in outputs] == [("b", 2)]
    drive.scheduler.drop("b")
    drive.scheduler.check()
    assert drive.scheduler.lanes[INTERACTIVE].pool.used == 0


def calls_of_a_step(waiting: int) -> int:
    """Python calls that one step of a full class takes while so many wait."""
    drive = Drive(worker_limits(class_limits(max_batch=4, kv_blocks=400)))
    drive.add(*(request(f"r{i}", out=10) for i in range(4)))
    drive.step()
    drive.add(*(request(f"w{i}") for i in range(waiting)))
    calls = 0

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    gc.disable()  # others may have asked to be called when it runs
    sys.setprofile(count)
    try:
        drive.step()
    finally:
        sys.setprofile(None)
        gc.enable()
    return calls


def test_a_step_does_the_same_work_however_many_wait() -> None:
    assert calls_of_a_step(waiting=10_000) == calls_of_a_step(waiting=100)
