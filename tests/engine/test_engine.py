"""The engine's thread: what may come from outside at any time, what it reports, what breaks."""

import logging
from threading import Event

import pytest

from engine_rig import running
from fakes.fake_runner import FakeRunner, continuation
from scheduling import BATCH, INTERACTIVE, class_limits, request, worker_limits
from splitpool_worker.engine.batch import Batch
from splitpool_worker.engine.engine import BadRequest, EngineStopped, NeverFits
from splitpool_worker.schedule.sequence import FinishReason, Request, SamplingParams


def held(runner: FakeRunner) -> Event:
    """Close the runner's gate: the next step stays open until the event is set."""
    runner.gate = Event()
    runner.entered.clear()
    return runner.gate


def test_a_request_is_answered_token_by_token_until_max_tokens() -> None:
    with running() as rig:
        rig.submit(request("a", prompt=[5, 6, 7], out=6))
        rig.wait("a")

    assert rig.tokens("a") == continuation([5, 6, 7], 6)
    assert rig.finish("a") is FinishReason.LENGTH


def test_a_stop_token_is_the_last_output() -> None:
    expected = continuation([5, 6, 7], 9)
    stop = expected[4]
    with running() as rig:
        rig.submit(request("a", prompt=[5, 6, 7], out=50, stops=[stop]))
        rig.wait("a")

    assert rig.tokens("a") == expected[: expected.index(stop) + 1]
    assert rig.finish("a") is FinishReason.STOP


def test_the_first_output_says_how_long_queue_and_prefill_took() -> None:
    with running() as rig:
        rig.submit(request("a", prompt=20))
        rig.wait("a")
    first, *others = [output.first for output in rig.outputs["a"]]

    assert first is not None
    assert first.queue_s >= 0
    assert first.prefill_s > 0
    assert others == [None] * len(others)


def test_a_prompt_that_can_never_fit_is_refused_before_it_is_queued() -> None:
    limits = worker_limits(class_limits(kv_blocks=8), max_model_len=100)
    with running(limits) as rig:
        with pytest.raises(NeverFits) as refusal:
            rig.submit(request("big", prompt=32))
        rig.submit(request("largest", prompt=31, out=5))
        rig.wait("largest")

    assert (refusal.value.prompt_tokens, refusal.value.limit) == (32, 31)
    assert len(rig.tokens("largest")) == 1


@pytest.mark.parametrize(
    "bad",
    [
        request("r", prompt=[]),
        request("r", prompt=[1], out=0),
        request("r", prompt=[1], cls=BATCH),
        request("r", prompt=[1, -1]),
        request("r", prompt=[97]),
        request("r", prompt=[1], params=SamplingParams(seed=1, logit_bias=((97, 1.0),))),
    ],
)
def test_a_request_that_could_break_a_step_is_refused(bad: Request) -> None:
    with running() as rig:
        with pytest.raises(BadRequest):
            rig.submit(bad)
        rig.submit(request("good", prompt=[1], out=1))
        rig.wait("good")


def test_nothing_from_outside_waits_for_a_step_that_is_held_open() -> None:
    with running() as rig:
        gate = held(rig.runner)
        rig.submit(request("running", prompt=8, out=5))
        assert rig.runner.entered.wait(60)
        rig.submit(request("new", prompt=10, out=5), request("unwanted", prompt=10, out=5))
        rig.engine.abort("unwanted")
        rig.engine.set_orphan("running", True)
        rig.engine.set_yield(4, 1.0)
        load = rig.engine.load()[INTERACTIVE]
        assert rig.engine.alive
        assert not rig.outputs
        gate.set()
        rig.wait("running", "new")

    assert (load.running, load.waiting, load.outstanding_tokens) == (1, 2, 13 + 15 + 15)
    assert rig.outputs["unwanted"] == []


def test_what_is_aborted_during_a_step_has_no_output_of_that_step() -> None:
    with running() as rig:
        gate = held(rig.runner)
        rig.submit(request("a", prompt=8, out=50), request("b", prompt=8, out=5))
        assert rig.runner.entered.wait(60)
        rig.engine.abort("a")
        gate.set()
        rig.wait("b")

    assert rig.outputs["a"] == []


def test_what_is_aborted_between_a_step_and_its_delivery_has_no_output() -> None:
    with running() as rig:
        rig.after_step = lambda: rig.engine.abort("a")
        rig.submit(request("a", prompt=8, out=50), request("b", prompt=8, out=5))
        rig.wait("b")

    assert rig.outputs["a"] == []


def test_an_abort_frees_the_blocks_before_the_next_step() -> None:
    with running() as rig:
        gate = held(rig.runner)
        rig.submit(request("a", prompt=100, out=50))
        assert rig.runner.entered.wait(60)
        rig.engine.abort("a")
        rig.engine.abort("a")
        gate.set()
        rig.submit(request("b", prompt=8, out=1))
        rig.wait("b")

    assert rig.stats[-1].classes[INTERACTIVE].kv_used_tokens == 0
    assert rig.engine.load()[INTERACTIVE].kv_used_tokens == 0


def test_a_yield_is_seen_in_the_step_log_and_lapses() -> None:
    limits = worker_limits(class_limits(BATCH, max_batch=16, kv_blocks=200), max_model_len=200)
    with running(limits) as rig:
        gate = held(rig.runner)
        names = [f"r{i}" for i in range(16)]
        rig.submit(*(request(name, prompt=8, out=30, cls=BATCH) for name in names))
        assert rig.runner.entered.wait(60)
        rig.engine.set_yield(4, 1000.0)
        gate.set()
        rig.until(lambda: len(rig.log_lines()) > 20)
        rig.engine.set_yield(4, 0.0)
        rig.wait(*names)
    lines = [line["classes"]["batch"] for line in rig.log_lines()]
    sizes = [line["decode_tokens"] + line["prefill_tokens"] for line in lines]

    assert set(sizes[2:20]) == {4}
    assert [line["budget"] for line in lines[2:20]] == [4] * 18
    assert max(sizes[20:]) > 4


def test_the_step_log_has_one_json_line_per_step_with_times_and_counts() -> None:
    with running() as rig:
        rig.submit(request("a", prompt=100, out=3))
        rig.wait("a")
    lines = rig.log_lines()

    assert [line["step"] for line in lines] == list(range(len(rig.runner.steps)))
    assert lines[0]["parts"].keys() == {"schedule", "forward", "sample", "deliver"}
    assert sum(line["classes"]["interactive"]["prefill_tokens"] for line in lines) == 100
    assert sum(line["classes"]["interactive"]["decode_tokens"] for line in lines) == 2
    for line in lines:
        assert sum(line["parts"].values()) == pytest.approx(line["seconds"])


def test_a_runner_that_knows_the_parts_of_its_forward_pass_has_them_in_the_steps() -> None:
    with running() as rig:
        rig.runner.seconds = {"linears": 1e-6, "attention": 2e-6}
        rig.submit(request("a", prompt=10, out=3))
        rig.wait("a")
    host = {"schedule", "sample", "deliver"}

    assert len(rig.stats) == 3
    for stats in rig.stats:
        assert stats.parts.keys() == {"linears", "attention", "other"} | host
        assert sum(stats.parts.values()) == pytest.approx(stats.seconds)
        assert stats.forward + sum(stats.parts[part] for part in host) == pytest.approx(
            stats.seconds
        )


def test_statistics_count_prefix_queries_and_hits_in_tokens() -> None:
    with running() as rig:
        for name in ("cold", "warm"):
            rig.submit(request(name, prompt=list(range(21)), out=1))
            rig.wait(name)
    steps = [stats.classes[INTERACTIVE] for stats in rig.stats]

    assert sum(step.prefix_query_tokens for step in steps) == 42
    assert sum(step.prefix_hit_tokens for step in steps) == 20


def test_a_step_that_fails_ends_its_sequences_and_the_engine_goes_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail(batch: Batch) -> None:
        if 66 in batch.tokens:
            raise RuntimeError("device is on fire")

    with running() as rig, caplog.at_level(logging.CRITICAL, "splitpool_worker.engine.engine"):
        rig.runner.before_step = fail
        rig.submit(request("bad", prompt=[66], out=5))
        rig.wait("bad")
        rig.submit(request("good", prompt=[1, 2], out=5))
        rig.wait("good")

    assert rig.finish("bad") is FinishReason.ERROR
    assert "device is on fire" in (rig.error("bad") or "")
    assert rig.tokens("good") == continuation([1, 2], 5)


def test_logits_that_are_not_finite_end_only_their_own_request_and_are_not_cached() -> None:
    with running() as rig:
        gate = held(rig.runner)
        rig.submit(request("good", prompt=[1, 2], out=20))
        rig.submit(request("bad", prompt=list(range(20)), out=20))
        assert rig.runner.entered.wait(60)

        def damage(batch: Batch) -> None:
            if rig.outputs["bad"]:
                rig.runner.poison(batch.block_tables[-1][:1])
                rig.runner.before_step = lambda batch: None

        rig.runner.before_step = damage
        gate.set()
        rig.wait("good", "bad")
        rig.submit(request("again", prompt=list(range(20)), out=5))
        rig.wait("again")

    assert rig.finish("bad") is FinishReason.ERROR
    assert rig.tokens("good") == continuation([1, 2], 20)
    assert rig.tokens("again") == continuation(range(20), 5)


def refuse(outputs: object) -> None:
    raise ValueError("the receiver is broken")


def test_a_receiver_that_fails_does_not_stop_the_engine(caplog: pytest.LogCaptureFixture) -> None:
    with running() as rig, caplog.at_level(logging.CRITICAL, "splitpool_worker.engine.engine"):
        receive = rig.engine._on_outputs
        rig.engine._on_outputs = refuse
        rig.submit(request("lost", out=1))
        rig.engine._on_step = lambda stats: setattr(rig.engine, "_on_outputs", receive)
        rig.submit(request("next", out=2))
        rig.wait("next")

    assert rig.finish("next") is FinishReason.LENGTH


def test_two_live_requests_of_one_id_do_not_disturb_each_other(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with running() as rig, caplog.at_level(logging.CRITICAL, "splitpool_worker.engine.engine"):
        rig.submit(request("a", prompt=[1], out=5), request("a", prompt=[2], out=5))
        rig.wait("a")

    assert rig.tokens("a") == continuation([1], 5)


def test_stopping_ends_what_is_live_with_abort_and_refuses_what_is_new() -> None:
    with running() as rig:
        gate = held(rig.runner)
        rig.submit(request("a", out=50), request("b", out=50))
        assert rig.runner.entered.wait(60)
        rig.submit(request("late", out=50))
        rig.engine.stop(0.0)
        gate.set()
        rig.engine.stop(60)
        with pytest.raises(EngineStopped):
            rig.submit(request("too late"))

    assert {rig.finish(name) for name in ("a", "b", "late")} == {FinishReason.ABORT}
    assert not rig.engine.alive


def test_a_static_batch_starts_by_itself_when_its_oldest_has_waited() -> None:
    with running(worker_limits(class_limits(max_wait_s=0.02, kv_blocks=50), static=True)) as rig:
        rig.submit(request("a", out=2))
        rig.wait("a")

    assert len(rig.tokens("a")) == 2


def test_a_leak_of_blocks_is_logged_when_the_engine_is_idle(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with running() as rig:
        rig.engine._scheduler.lanes[INTERACTIVE].pool.take([], 3)
        rig.submit(request("a", out=1))
        rig.wait("a")
    # The thread has ended, so its last check is done or the end of the loop came first.
    rig.engine._check_books()

    assert "KV blocks do not add up" in caplog.text


def test_an_orphan_continues_alone_without_computing_anything_again() -> None:
    with running() as rig:
        rig.submit(request("gone", prompt=[1, 2, 3], out=40))
        rig.until(lambda: len(rig.outputs["gone"]) >= 3)
        rig.engine.set_orphan("gone", True)
        rig.until(lambda: len(rig.outputs["gone"]) >= 20)
        rig.engine.set_orphan("gone", False)
        rig.wait("gone")

    assert rig.tokens("gone") == continuation([1, 2, 3], 40)
    assert sum(len(batch.tokens) for batch in rig.runner.steps) == 3 + 39
