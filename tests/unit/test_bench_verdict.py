"""Is one server better, or is there no difference? From made-up repeats of both."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from splitpool_bench.measuring.verdict import KINDS, Kind, compare, judge, verdict
from unit.bench_outcomes import outcome, point

TTFT, OUTPUT = KINDS[0], KINDS[-1]


def repeats(rng: random.Random, middle: float, count: int = 5) -> list[float]:
    return [middle * rng.lognormvariate(0, 0.05) for _ in range(count)]


def test_servers_that_are_alike_differ_in_about_5_of_100_comparisons() -> None:
    rng = random.Random(1)
    pairs = [[(repeats(rng, 100), repeats(rng, 100)) for _ in KINDS] for _ in range(400)]
    wrong = sum(any(judge(TTFT, a, b).differ for a, b in figures) for figures in pairs)

    assert wrong / len(pairs) < 0.07  # 5 %, and what 400 draws vary by


def test_a_server_that_takes_half_as_long_again_is_found_out() -> None:
    rng = random.Random(2)
    found = [judge(TTFT, repeats(rng, 100), repeats(rng, 150)) for _ in range(200)]

    assert sum(each.differ for each in found) / len(found) > 0.95
    assert all(each.ratio > 1 for each in found)


@pytest.mark.parametrize(
    ("kind", "b", "said"),
    [
        (TTFT, [50.0, 51.0, 49.0], "lower, better"),
        (TTFT, [200.0, 201.0, 199.0], "higher, worse"),
        (OUTPUT, [200.0, 201.0, 199.0], "higher, better"),
    ],
)
def test_the_verdict_says_which_is_better(kind: Kind, b: list[float], said: str) -> None:
    found = judge(kind, [100.0, 101.0, 99.0], b)

    assert said in found.said


@given(values=st.lists(st.floats(1, 1000), min_size=3, max_size=6))
def test_a_server_beside_itself_shows_no_difference(values: list[float]) -> None:
    found = judge(TTFT, values, values)

    assert found.ratio == pytest.approx(1)
    assert not found.differ
    assert verdict([found]).startswith("no difference")


def test_repeats_that_spread_far_exclude_nothing_and_say_so() -> None:
    found = judge(TTFT, [100.0, 100.0, 100.0], [50.0, 100.0, 200.0])

    assert not found.differ
    assert "no difference seen, but only" in found.said
    assert "ask for more --repeats" in verdict([found])


@given(
    a=st.lists(st.floats(1, 1000), min_size=4, max_size=4),
    b=st.lists(st.floats(1, 1000), min_size=4, max_size=4),
)
def test_it_does_not_matter_which_one_is_called_a(a: list[float], b: list[float]) -> None:
    there, back = judge(TTFT, a, b), judge(TTFT, b, a)

    assert there.ratio * back.ratio == pytest.approx(1)
    assert there.differ == back.differ


@pytest.mark.parametrize("missing", [0.0, float("nan")])
def test_a_figure_that_is_missing_is_not_compared(missing: float) -> None:
    found = judge(TTFT, [1.0, missing, 1.0], [2.0, 2.0, 2.0])

    assert found.said == "not measured"
    assert not found.differ


def test_the_figures_come_from_the_repeats() -> None:
    a = [point(outcome(ttft=0.1))] * 3
    found = {each.name: each for each in compare(a, [point(outcome(ttft=0.2))] * 2)}

    assert found["TTFT p50"].a == pytest.approx((100, 100))
    assert found["TTFT p50"].b == pytest.approx((200, 200))
