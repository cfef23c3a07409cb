"""The pace learns what a step costs and limits prefill so that no step is planned too long."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from splitpool_worker.schedule.pace import OUTLIER, Pace, StepWork


def work(decodes: int = 0, context: int = 0, prefills: int = 0, start: int = 0) -> StepWork:
    made = StepWork()
    for _ in range(decodes):
        made.decode(context)
    made.prefill(start, prefills)
    return made


def cost(of: StepWork, base: float, decode: float, prefill: float, attend: float) -> float:
    return base + decode * of.decodes + prefill * of.prefills + attend * of.attended


def taught(rng: random.Random, costs: tuple[float, ...], *, steps: int, noise: float) -> Pace:
    pace = Pace(0.1)
    for i in range(steps):
        prefills = rng.randrange(16, 128) if i % 4 == 0 else 0
        step = work(rng.randrange(1, 33), rng.randrange(50, 1000), prefills, rng.randrange(1000))
        pace.observe(step, cost(step, *costs) * rng.uniform(1 - noise, 1 + noise))
    return pace


def filled(costs: tuple[float, ...], rng: random.Random) -> list[float]:
    """Seconds of steps in each of which prefill takes the room that there is."""
    pace = Pace(0.1)
    taken = []
    for _ in range(200):
        start, step = rng.randrange(1000), work(rng.randrange(1, 17), rng.randrange(300))
        step.prefill(start, max(16, pace.room(step, start, wanted=100_000, untrusted=64)))
        taken.append(cost(step, *costs))
        pace.observe(step, taken[-1] * rng.uniform(0.95, 1.05))
    return taken


def test_before_anything_is_learned_a_step_carries_one_chunk_at_most() -> None:
    pace = Pace(0.1)
    assert pace.room(work(), 0, wanted=512, untrusted=128) == 128
    assert pace.room(work(prefills=100), 0, wanted=512, untrusted=128) == 28


def test_an_infinite_step_limits_nothing() -> None:
    assert Pace(float("inf")).room(work(), 0, wanted=512, untrusted=128) == 512


def test_attended_context_grows_with_the_square_of_a_chunk() -> None:
    assert work(prefills=3, start=10).attended == 11 + 12 + 13


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    base=st.floats(0.001, 0.02),
    decode=st.floats(0.0001, 0.001),
    prefill=st.floats(0.0002, 0.002),
    attend=st.floats(0.0, 1e-6),
)
def test_whatever_the_costs_steps_filled_to_their_room_take_about_the_longest_allowed(
    seed: int, base: float, decode: float, prefill: float, attend: float
) -> None:
    taken = filled((base, decode, prefill, attend), random.Random(seed))

    assert sum(taken[-50:]) / 50 == pytest.approx(0.1, rel=0.1)


def test_where_attention_outweighs_all_else_few_steps_take_longer_either() -> None:
    taken = filled((0.001, 0.0001, 0.0002, 1e-6), random.Random(7))

    assert sorted(taken[-100:])[90] < 0.12


def test_decodes_leave_less_room_for_prefill() -> None:
    pace = taught(random.Random(1), (0.005, 0.001, 0.0005, 0.0), steps=300, noise=0.1)
    few = pace.room(work(1, 100), 0, wanted=10_000, untrusted=0)
    many = pace.room(work(64, 100), 0, wanted=10_000, untrusted=0)
    assert few - many == pytest.approx(63 * 0.001 / 0.0005, rel=0.3)


def test_a_late_chunk_of_a_long_prompt_costs_more_than_its_first() -> None:
    pace = taught(random.Random(2), (0.005, 0.0, 0.0003, 1e-6), steps=300, noise=0.05)
    early = pace.room(work(), 0, wanted=10_000, untrusted=0)
    late = pace.room(work(), 2000, wanted=10_000, untrusted=0)
    assert late < early / 2


def test_single_stalls_hardly_change_what_fits() -> None:
    rng = random.Random(3)
    pace = taught(rng, (0.005, 0.0005, 0.0005, 0.0), steps=300, noise=0.05)
    before = pace.room(work(8, 100), 0, wanted=10_000, untrusted=0)
    stalled = work(8, 100, 64)
    pace.observe(stalled, 30.0)
    after = pace.room(work(8, 100), 0, wanted=10_000, untrusted=0)
    assert after > before / OUTLIER**0.5


def test_a_lasting_change_of_pace_is_learned() -> None:
    rng = random.Random(4)
    pace = taught(rng, (0.005, 0.0005, 0.0005, 0.0), steps=300, noise=0.05)
    before = pace.room(work(), 0, wanted=10_000, untrusted=0)
    for _ in range(300):
        step = work(rng.randrange(1, 33), 100, rng.randrange(16, 128))
        pace.observe(step, cost(step, 0.01, 0.001, 0.001, 0.0))
    after = pace.room(work(), 0, wanted=10_000, untrusted=0)
    assert after == pytest.approx(before / 2, rel=0.25)


def test_long_stretches_without_prefill_do_not_make_the_first_prefill_after_them_a_surprise() -> (
    None
):
    rng = random.Random(5)
    pace = taught(rng, (0.005, 0.0005, 0.0005, 0.0), steps=300, noise=0.05)
    for _ in range(5000):
        step = work(8, 100)
        pace.observe(step, cost(step, 0.005, 0.0005, 0.0005, 0.0) * rng.uniform(0.9, 1.1))
    room = pace.room(work(8, 100), 0, wanted=10_000, untrusted=0)
    assert room == pytest.approx((0.1 - 0.009) / 0.0005, rel=0.25)


@settings(max_examples=50, deadline=None)
@given(seconds=st.lists(st.floats(0.0, 1e4), min_size=1, max_size=200), seed=st.integers(0, 999))
def test_no_series_of_times_makes_the_prediction_negative_or_meaningless(
    seconds: list[float], seed: int
) -> None:
    rng = random.Random(seed)
    pace = Pace(0.1)
    for value in seconds:
        step = work(rng.randrange(64), rng.randrange(2000), rng.randrange(512))
        pace.observe(step, value)
        assert 0.0 <= pace.predict(step) < float("inf")
        assert 0 <= pace.room(step, 0, wanted=512, untrusted=128) <= 512


def test_decodes_that_fill_a_step_leave_prefill_a_third_of_it() -> None:
    pace = taught(random.Random(6), (0.01, 0.01, 0.001, 0.0), steps=400, noise=0.0)
    step = work(29, 100)
    step.prefill(0, pace.room(step, 0, wanted=10_000, untrusted=0))

    assert cost(step, 0.01, 0.01, 0.001, 0.0) == pytest.approx(1.5 * 0.3, rel=0.2)
    assert pace.room(step, 0, wanted=10_000, untrusted=0) == 0
