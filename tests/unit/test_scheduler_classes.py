"""What a Shared worker's classes get of an iteration: interactive first, batch what it leaves."""

import pytest

from scheduling import BATCH, INTERACTIVE, Drive, class_limits, request, worker_limits


def both(**batch: float) -> Drive:
    """A Shared worker: interactive 64 tokens a step, batch 64, so 128 in all."""
    limits = class_limits(BATCH, **{"max_batch": 32, **batch})  # type: ignore[arg-type]
    return Drive(worker_limits(class_limits(INTERACTIVE, max_batch=8), limits))


def order(drive: Drive) -> list[str]:
    return [share.sequence.id for share in drive.plans[-1].shares]


def test_interactive_comes_before_batch_and_decodes_before_prefills() -> None:
    drive = both()
    drive.add(request("batch decode", cls=BATCH), request("interactive decode"))
    drive.step()
    drive.add(request("batch prompt", cls=BATCH), request("interactive prompt"))
    drive.step()

    assert order(drive) == [
        "interactive decode",
        "batch decode",
        "interactive prompt",
        "batch prompt",
    ]


def test_an_interactive_prompt_has_its_budget_before_batch_has_any_beyond_its_sixteenth() -> None:
    drive = both()
    drive.add(*(request(f"b{i}", cls=BATCH, out=50) for i in range(32)))
    drive.step()
    drive.add(request("chat", prompt=60), request("job", prompt=200, cls=BATCH))
    shares = drive.step()

    assert shares.pop("chat") == 60
    assert sum(shares.values()) == 64 // 16


def test_while_an_interactive_prompt_is_prefilled_batch_gets_a_sixteenth_and_takes_turns() -> None:
    drive = both()
    drive.add(*(request(f"b{i}", cls=BATCH, out=50) for i in range(8)))
    drive.step()
    drive.add(request("prompt", prompt=900, out=1))
    during = [drive.step() for _ in range(5)]
    turns = [[name for name in shares if name != "prompt"] for shares in during]

    assert [len(turn) for turn in turns] == [64 // 16] * 5
    assert sorted(turns[0] + turns[1]) == [f"b{i}" for i in range(8)]
    assert turns[0] == turns[2]


def test_batch_takes_what_is_left_once_interactive_only_decodes() -> None:
    drive = both(prefill_chunk=128)
    drive.add(request("chat", out=50))
    drive.step()
    drive.add(request("job", prompt=500, cls=BATCH))

    assert drive.step() == {"chat": 1, "job": 127}


def test_a_lone_interactive_prompt_leaves_batch_its_sixteenth() -> None:
    drive = both()
    drive.add(request("job", cls=BATCH, out=50))
    drive.step()
    drive.add(request("prompt", prompt=900))

    assert drive.step() == {"prompt": 128 - 64 // 16, "job": 1}


def test_an_orphan_of_interactive_does_not_hold_batch_back() -> None:
    drive = both(prefill_chunk=128)
    drive.add(request("gone", prompt=900), request("job", prompt=900, cls=BATCH))
    drive.scheduler.set_orphan("gone", True)
    drive.step()

    assert drive.plans[-1].portions[BATCH].prefills > 64 // 16


def test_a_yield_caps_batch_until_it_lapses() -> None:
    drive = Drive(worker_limits(class_limits(BATCH, max_batch=16)))
    drive.add(*(request(str(i), cls=BATCH, out=50) for i in range(16)))
    drive.step()
    drive.scheduler.set_yield(4, until=drive.now + 3)
    sizes = [len(drive.step()) for _ in range(5)]

    assert sizes == [4, 4, 4, 16, 16]
    assert drive.plans[1].portions[BATCH].budget == 4


def test_under_a_yield_every_decode_gets_its_turn() -> None:
    drive = Drive(worker_limits(class_limits(BATCH, max_batch=16)))
    drive.add(*(request(str(i), cls=BATCH, out=50) for i in range(16)))
    drive.step()
    drive.scheduler.set_yield(4, until=1e9)
    served = [name for _ in range(4) for name in drive.step()]

    assert sorted(served) == sorted(str(i) for i in range(16))


def test_without_class_priority_an_older_batch_prompt_is_prefilled_before_an_interactive_one() -> (
    None
):
    limits = worker_limits(
        class_limits(INTERACTIVE, prefill_chunk=64),
        class_limits(BATCH, prefill_chunk=64),
        class_priority=False,
    )
    drive = Drive(limits)
    drive.add(request("job 1", prompt=300, cls=BATCH), request("job 2", prompt=300, cls=BATCH))
    drive.now = 0.5
    drive.add(request("chat", prompt=30))

    assert drive.step() == {"job 1": 64, "job 2": 64}
    assert drive.step() == {"job 1": 64, "job 2": 64}


def paced(max_step_s: float) -> Drive:
    """A Shared worker whose step takes 10 ms and 1 ms a token, and which knows that by now."""
    limits = worker_limits(
        class_limits(INTERACTIVE, token_budget=512, prefill_chunk=256),
        class_limits(BATCH, token_budget=512, prefill_chunk=512, kv_blocks=4000),
        max_model_len=4000,
        max_step_s=max_step_s,
    )
    drive = Drive(limits, seconds=lambda plan: 0.01 + 0.001 * plan.tokens)
    drive.add(*(request(f"b{i}", cls=BATCH, prompt=3000, out=9) for i in range(4)))
    drive.run(steps=9)
    return drive


def test_beside_interactive_sequences_a_batch_prompt_fills_a_third_of_the_longest_step() -> None:
    drive = paced(max_step_s=0.3)
    assert drive.plans[-1].tokens > 200

    drive.add(request("chat", prompt=20, out=8))
    drive.run(steps=8)
    assert [plan.tokens for plan in drive.plans[-5:]] == pytest.approx([90] * 5, abs=15)

    drive.run(steps=2)
    assert "chat" in drive.finished
    assert drive.plans[-1].tokens > 200


def test_beside_interactive_prompts_that_fill_the_step_a_batch_prompt_goes_on_slowly() -> None:
    drive = paced(max_step_s=0.1)
    drive.add(request("a", prompt=500), request("b", prompt=500))
    drive.run(steps=8)

    assert [plan.portions[BATCH].prefills for plan in drive.plans[-5:]] == [4] * 5
