import math
import random
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from splitpool_bench.stats import bootstrap_interval, p99, quantile, quantile_interval, student_t

VALUES = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=50)


@pytest.mark.parametrize(
    ("q", "expected"), [(0, 1), (0.25, 1.75), (0.5, 2.5), (0.75, 3.25), (1, 4)]
)
def test_quantiles_interpolate_between_order_statistics(q: float, expected: float) -> None:
    assert quantile([4, 1, 3, 2], q) == pytest.approx(expected)


@given(values=VALUES, q=st.floats(0, 1))
def test_a_quantile_lies_within_the_sample_and_grows_with_q(values: list[float], q: float) -> None:
    assert min(values) <= quantile(values, q) <= max(values)
    assert quantile(values, q / 2) <= quantile(values, q)


def test_of_nothing_there_is_no_quantile() -> None:
    assert math.isnan(quantile([], 0.5))
    assert all(math.isnan(edge) for edge in bootstrap_interval([], p99))


def test_a_quantile_outside_0_to_1_is_refused() -> None:
    with pytest.raises(ValueError, match=r"outside 0\.\.1"):
        quantile([1.0], 1.5)


def test_the_interval_holds_the_statistic_and_narrows_with_more_samples() -> None:
    rng = random.Random(3)
    few = [rng.gauss(10, 1) for _ in range(30)]
    many = [rng.gauss(10, 1) for _ in range(3000)]

    low_few, high_few = bootstrap_interval(few, fmean, rounds=300)
    low, high = bootstrap_interval(many, fmean, rounds=300)

    assert low <= fmean(many) <= high
    assert high - low < high_few - low_few


@pytest.mark.parametrize(("count", "q"), [(40, 0.5), (300, 0.9), (1000, 0.99)])
def test_the_interval_without_drawing_is_that_of_many_drawn(count: int, q: float) -> None:
    rng = random.Random(count)
    values = [rng.lognormvariate(0, 1) for _ in range(count)]

    drawn = bootstrap_interval(values, lambda sample: quantile(sample, q), rounds=2000)

    assert quantile_interval(values, q) == pytest.approx(drawn, rel=0.06)


@given(values=VALUES, q=st.floats(0, 1))
def test_the_interval_of_a_quantile_is_ordered_and_within_the_sample(
    values: list[float], q: float
) -> None:
    low, high = quantile_interval(values, q)

    assert min(values) <= low <= high <= max(values)


def test_of_nothing_a_quantile_has_no_interval() -> None:
    assert all(math.isnan(edge) for edge in quantile_interval([], 0.99))


@pytest.mark.parametrize(
    ("level", "freedom", "expected"),
    [(0.95, 1, 12.706), (0.95, 2, 4.303), (0.95, 5, 2.571), (0.99, 4, 4.604), (0.99, 10, 3.169)],
)
def test_students_t_is_that_of_the_tables(level: float, freedom: int, expected: float) -> None:
    assert student_t(level, freedom) == pytest.approx(expected, abs=1e-3)
