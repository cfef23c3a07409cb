"""When does a soak say that something grew?"""

import math
import random

import pytest

from splitpool_bench.growth import Sample, growth, like_for_like


def noisy(slope: float, *, noise: float = 0.02, seed: int = 1) -> list[Sample]:
    """1,800 samples around 100, which grow by `slope` of that over the whole time."""
    rng = random.Random(seed)
    return [
        (float(second), 100 * (1 + slope * second / 1800) * rng.gauss(1, noise))
        for second in range(1800)
    ]


@pytest.mark.parametrize("seed", range(8))
def test_noise_is_no_growth(seed: int) -> None:
    assert not growth(noisy(0.0, seed=seed), 0, 1800).beyond(1.02)


@pytest.mark.parametrize("seed", range(8))
def test_a_tenth_more_in_half_an_hour_is_growth(seed: int) -> None:
    found = growth(noisy(0.1, seed=seed), 0, 1800)
    assert found.beyond(1.02)
    assert found.low < found.ratio < found.high


def test_what_fills_in_the_first_third_is_no_growth() -> None:
    samples = [(second, min(second, 550.0) + 100) for second in map(float, range(1800))]
    assert not growth(samples, 0, 1800).beyond(1.0)


def test_a_few_slow_moments_are_no_growth() -> None:
    samples = [(when, 500.0 if when % 97 == 0 and when > 1200 else 1.0) for when, _ in noisy(0)]
    assert growth(samples, 0, 1800).ratio == 1.0


def test_without_samples_nothing_passes() -> None:
    found = growth([(5.0, 1.0)], 0, 1800)
    assert math.isnan(found.ratio)
    assert found.beyond(2.0)


def test_steps_of_other_sizes_are_compared_with_their_like() -> None:
    small = [(float(when), 1.0) for when in range(100)]
    large = [(float(when), 9.0) for when in range(60, 200)]
    assert {value for _, value in like_for_like({1: small, 8: large})} == {1.0}
