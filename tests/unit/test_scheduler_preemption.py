"""Who gives up blocks and slots: preemption, and orphans, whose clients are gone."""

from scheduling import INTERACTIVE, Drive, class_limits, request, worker_limits
from splitpool_worker.schedule.preempt import MAX_PREEMPTIONS, victim
from splitpool_worker.schedule.sequence import FinishReason, Sequence


def holder(name: str, *, computed: int, preemptions: int = 0, orphan: bool = False) -> Sequence:
    sequence = Sequence.of(request(name), submitted=0.0)
    sequence.computed, sequence.preemptions, sequence.orphan = computed, preemptions, orphan
    return sequence


def chosen(*holders: Sequence) -> str | None:
    loser = victim(holders)
    return None if loser is None else loser.id


def test_the_victim_is_the_one_with_the_least_work_to_lose_not_the_newest() -> None:
    assert chosen(holder("old", computed=9), holder("new", computed=50)) == "old"


def test_orphans_are_preempted_before_anyone_with_a_client() -> None:
    assert chosen(holder("a", computed=1), holder("gone", computed=99, orphan=True)) == "gone"


def test_one_that_was_preempted_twice_is_not_preempted_again() -> None:
    assert chosen(holder("twice", computed=1, preemptions=2), holder("b", computed=9)) == "b"
    assert chosen(holder("twice", computed=1, preemptions=2)) is None


def test_an_orphan_is_never_exempt() -> None:
    assert chosen(holder("gone", computed=1, preemptions=5, orphan=True)) == "gone"


def crowded(kv_blocks: int = 20, **limits: int) -> Drive:
    return Drive(worker_limits(class_limits(kv_blocks=kv_blocks, **limits)))  # type: ignore[arg-type]


def test_sequences_that_outgrow_the_cache_together_all_finish_with_all_their_tokens() -> None:
    drive = crowded(kv_blocks=20)
    drive.add(*(request(str(i), prompt=8, out=60) for i in range(4)))
    drive.run(steps=2000)
    lane = drive.scheduler.lanes[INTERACTIVE]

    assert lane.preemptions > 0
    assert [drive.tokens_of(str(i)) for i in range(4)] == [60] * 4
    assert lane.pool.used == 0
    drive.scheduler.check()


def test_nobody_is_preempted_more_than_twice() -> None:
    drive = crowded(kv_blocks=24, max_batch=8)
    drive.add(*(request(str(i), prompt=8, out=80) for i in range(8)))
    seen: dict[str, int] = {}
    while not drive.scheduler.idle:
        drive.step()
        seen |= {s.id: s.preemptions for s in drive.scheduler.live}

    assert max(seen.values()) <= MAX_PREEMPTIONS
    assert len(drive.finished) == 8


def test_one_that_was_preempted_twice_comes_back_with_blocks_for_its_whole_length() -> None:
    drive = crowded(kv_blocks=40)
    drive.add(request("twice", prompt=8, out=92))
    (sequence,) = drive.scheduler.live
    sequence.preemptions = MAX_PREEMPTIONS
    drive.step()

    assert len(sequence.blocks) == 100 // 4


def test_a_preempted_sequence_finds_what_it_computed_while_nobody_needed_the_blocks() -> None:
    drive = crowded()
    drive.add(request("a", prompt=9, out=50))
    drive.run(steps=8)
    (sequence,) = drive.scheduler.live
    computed = sequence.computed
    drive.scheduler.lanes[INTERACTIVE].preempt(sequence)
    assert sequence.computed == 0
    drive.step()

    assert sequence.computed == computed + 1
    assert drive.plans[-1].shares[0].start == computed // 4 * 4


def test_a_sequence_that_outgrows_everything_ends_with_length() -> None:
    drive = crowded(kv_blocks=5)
    drive.add(request("a", prompt=8, out=100))
    drive.run()

    assert drive.finish_of("a") is FinishReason.LENGTH
    assert drive.tokens_of("a") == 5 * 4 - 8


def test_an_orphan_gives_its_slot_to_whoever_waits_and_keeps_its_blocks() -> None:
    drive = crowded(max_batch=1)
    drive.add(request("gone", prompt=8, out=20))
    drive.step()
    drive.scheduler.set_orphan("gone", True)
    assert drive.step() == {"gone": 1}
    held = len(drive.scheduler.live[0].blocks)
    drive.add(request("client", out=3))

    assert [drive.step() for _ in range(3)] == [{"client": 1}] * 3
    assert len(drive.scheduler.live[0].blocks) == held
    assert drive.step() == {"gone": 1}


def test_an_orphan_that_made_way_continues_without_recomputation_when_its_client_is_back() -> None:
    drive = crowded(max_batch=1)
    drive.add(request("gone", prompt=8, out=20))
    drive.step()
    drive.scheduler.set_orphan("gone", True)
    drive.add(request("client", out=3), request("later", out=1))
    drive.step()
    drive.scheduler.set_orphan("gone", False)
    rows = [drive.step() for _ in range(4)]

    assert rows == [{"client": 1}, {"client": 1}, {"gone": 1}, {"gone": 1}]


def test_a_parked_orphan_loses_its_blocks_when_a_client_needs_them() -> None:
    drive = crowded(kv_blocks=20, max_batch=1)
    drive.add(request("gone", prompt=40, out=20))
    drive.step()
    drive.scheduler.set_orphan("gone", True)
    drive.add(request("client", prompt=60, out=1))

    assert "client" in drive.step()
    assert drive.scheduler.live[0].blocks == []
    drive.run()
    assert drive.tokens_of("gone") == 20


def test_orphans_stand_behind_every_client_that_waits() -> None:
    drive = crowded(max_batch=1)
    drive.add(request("running", out=3), request("gone", out=1), request("client", out=1))
    drive.scheduler.set_orphan("gone", True)
    rows = drive.run()

    assert [next(iter(row)) for row in rows] == ["running", "running", "running", "client", "gone"]


def test_in_static_mode_orphans_that_are_left_make_way_for_the_next_batch() -> None:
    drive = Drive(worker_limits(class_limits(max_batch=2), static=True))
    drive.add(request("a", out=50), request("b", out=50))
    drive.step()
    drive.scheduler.set_orphan("a", True)
    drive.scheduler.set_orphan("b", True)
    drive.add(request("c", out=2))

    assert drive.step() == {"c": 1}
