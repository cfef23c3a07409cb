import pytest
from hypothesis import given
from hypothesis import strategies as st

from splitpool_bench.arrivals import constant, poisson

RATES = st.floats(0.01, 1000)


def test_constant_arrivals_are_one_interval_apart() -> None:
    assert constant(rate=4, count=5) == [0, 0.25, 0.5, 0.75, 1.0]


@given(rate=RATES, seed=st.integers(0, 99))
def test_poisson_arrivals_never_go_back_and_repeat_with_their_seed(rate: float, seed: int) -> None:
    offsets = poisson(rate, 50, seed)

    assert offsets == sorted(offsets)
    assert offsets[0] >= 0
    assert offsets == poisson(rate, 50, seed)
    assert offsets != poisson(rate, 50, seed + 1)


def test_poisson_arrivals_come_at_their_rate_on_average() -> None:
    offsets = poisson(rate=20, count=20_000, seed=1)

    assert 20_000 / offsets[-1] == pytest.approx(20, rel=0.03)


@pytest.mark.parametrize("rate", [0.0, -1.0, float("nan")])
def test_a_rate_that_is_not_positive_is_refused(rate: float) -> None:
    with pytest.raises(ValueError, match="rate is"):
        constant(rate, 1)
    with pytest.raises(ValueError, match="rate is"):
        poisson(rate, 1, 0)
