"""What holds for every mix of requests, limits, aborts and orphans."""

from collections.abc import Iterable

from hypothesis import given, settings
from hypothesis import strategies as st

from scheduling import BATCH, INTERACTIVE, Drive, class_limits, request, worker_limits
from splitpool_worker.schedule.lane import Lane
from splitpool_worker.schedule.limits import ClassLimits, WorkerLimits
from splitpool_worker.schedule.sequence import LatencyClass, Request
from splitpool_worker.schedule.step import StepPlan

BLOCK = 4


@st.composite
def limits_of(draw: st.DrawFn, cls: LatencyClass) -> ClassLimits:
    max_batch = draw(st.integers(1, 6))
    return class_limits(
        cls,
        kv_blocks=draw(st.integers(6, 30)),
        max_batch=max_batch,
        max_wait_s=draw(st.sampled_from([0.0, 3.0])),
        token_budget=max_batch + 16 + draw(st.integers(0, 40)),
        prefill_chunk=draw(st.sampled_from([1, 7, 16, 64])),
        prefix_cache=draw(st.booleans()),
    )


@st.composite
def workers(draw: st.DrawFn) -> WorkerLimits:
    kinds = draw(st.sampled_from([(INTERACTIVE,), (BATCH,), (INTERACTIVE, BATCH)]))
    return worker_limits(
        *(draw(limits_of(cls)) for cls in kinds),
        block_size=BLOCK,
        max_model_len=draw(st.integers(24, 100)),
        max_step_s=draw(st.sampled_from([0.05, 0.5, float("inf")])),
        static=draw(st.booleans()),
        class_priority=draw(st.booleans()),
        draft_tokens=draw(st.sampled_from([0, 3, 7])),
    )


@st.composite
def arrivals(draw: st.DrawFn, limits: WorkerLimits) -> list[tuple[int, Request]]:
    """Steps at which requests arrive that fit, some with a prefix in common."""
    result = []
    for i in range(draw(st.integers(1, 14))):
        of_class = draw(st.sampled_from(limits.classes))
        size = draw(st.integers(1, limits.longest(of_class) - 1))
        prompt = range(size) if draw(st.booleans()) else [1000 * (i + 1) + j for j in range(size)]
        one = request(
            f"r{i}",
            prompt=list(prompt),
            out=draw(st.integers(1, 40)),
            cls=of_class.cls,
            stream=draw(st.booleans()),
        )
        result.append((draw(st.integers(0, 30)), one))
    return result


def check_plan(drive: Drive, plan: StepPlan) -> None:
    """Budgets, batch sizes and block ownership of one step."""
    limits = drive.limits
    assert plan.tokens <= sum(of.token_budget for of in limits.classes)
    assert len({share.sequence.id for share in plan.shares}) == len(plan.shares)
    first = 0
    for of_class in limits.classes:
        lane = drive.scheduler.lanes[of_class.cls]
        assert plan.portions[of_class.cls].tokens <= plan.portions[of_class.cls].budget
        assert len(lane.running) <= of_class.max_batch
        assert lane.pool.available >= 0
        check_blocks(lane, range(first, first + of_class.kv_blocks))
        first += of_class.kv_blocks
    for share in plan.shares:
        assert share.count >= 1
        assert len(share.sequence.blocks) * BLOCK >= share.start + share.count


def check_blocks(lane: Lane, own: range) -> None:
    """A class holds blocks of its own partition only, and nobody writes to a shared one."""
    holders = list(lane.holders())
    held = [block for sequence in holders for block in sequence.blocks]
    assert all(block in own for block in held)
    written = [block for s in holders for block in s.blocks[s.computed // BLOCK :]]
    assert all(held.count(block) == 1 for block in written)


def play(drive: Drive, coming: list[tuple[int, Request]], steps: Iterable[int]) -> None:
    for step in steps:
        drive.add(*(one for at, one in coming if at == step))
        drive.step()
        drive.scheduler.check()


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_every_accepted_request_finishes_within_all_limits(data: st.DataObject) -> None:
    limits = data.draw(workers())
    coming = data.draw(arrivals(limits))
    drive = Drive(limits, seconds=lambda plan: 0.1, inspect=check_plan)
    play(drive, coming, range(31))
    # Every step of a live request computes something but for gathering, so this many are enough.
    longest = sum(len(one.prompt) + one.max_tokens for _, one in coming)
    play(drive, [], range(4 * longest + 200))

    assert drive.finished.keys() == {one.id for _, one in coming}
    for _, one in coming:
        room = limits.longest(limits.of(one.cls) or limits.classes[0]) - len(one.prompt)
        assert drive.tokens_of(one.id) == min(one.max_tokens, room)
    assert all(lane.pool.used == 0 for lane in drive.scheduler.lanes.values())


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_aborts_at_random_steps_and_clients_that_come_and_go_return_every_block(
    data: st.DataObject,
) -> None:
    limits = data.draw(workers())
    coming = data.draw(arrivals(limits))
    drive = Drive(limits, seconds=lambda plan: 0.1, inspect=check_plan)
    names = st.sampled_from([one.id for _, one in coming])
    for step in range(60):
        drive.add(*(one for at, one in coming if at == step))
        drive.scheduler.drop(data.draw(names)) if data.draw(st.booleans()) else None
        drive.scheduler.set_orphan(data.draw(names), data.draw(st.booleans()))
        drive.step()
        drive.scheduler.check()
    for sequence in drive.scheduler.live:
        drive.scheduler.drop(sequence.id)
    drive.scheduler.check()

    assert all(lane.pool.available == lane.pool.count for lane in drive.scheduler.lanes.values())
    assert all(lane.waiting.tokens == 0 for lane in drive.scheduler.lanes.values())


@settings(max_examples=50, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 60), min_size=1, max_size=5),
    yielded=st.integers(1, 40),
)
def test_batch_is_not_starved_by_interactive_requests_that_never_end(
    sizes: list[int], yielded: int
) -> None:
    drive = Drive(worker_limits(class_limits(INTERACTIVE), class_limits(BATCH)))
    drive.add(*(request(f"b{i}", prompt=size, out=5, cls=BATCH) for i, size in enumerate(sizes)))
    drive.scheduler.set_yield(yielded, until=float("inf"))
    steps = 0
    while not all(f"b{i}" in drive.finished for i in range(len(sizes))):
        drive.add(request(f"i{steps}", prompt=90, out=2))
        drive.step()
        steps += 1
        assert steps < 500


@settings(max_examples=50, deadline=None)
@given(
    lengths=st.lists(st.integers(1, 80), min_size=2, max_size=20),
    ratio=st.floats(1.0, 8.0),
    streams=st.integers(0, 2**20),
)
def test_a_static_batch_never_exceeds_the_length_ratio(
    lengths: list[int], ratio: float, streams: int
) -> None:
    of_class = class_limits(max_batch=6, max_length_ratio=ratio, max_wait_s=0.0)
    drive = Drive(worker_limits(of_class, static=True))
    for i, length in enumerate(lengths):
        drive.add(request(str(i), out=length, stream=bool(streams >> i & 1)))
    while not drive.scheduler.idle:
        members = [int(name) for name in drive.step()]
        expected = [1 + lengths[i] for i in members]
        assert max(expected) <= ratio * min(expected)
