"""Do the sweeps vary one knob each, over the same requests, and does the page say all of it?"""

from dataclasses import fields

import pytest

from splitpool_bench.sweeping.batching_page import Result, page, plot
from splitpool_bench.sweeping.driving import Taken
from splitpool_bench.sweeping.settings import Setting, Sweep, asks, sweeps

SWEEPS = sweeps(rate=4.0)


@pytest.mark.parametrize("sweep", SWEEPS, ids=lambda sweep: sweep.name)
def test_a_sweep_varies_its_knob_and_nothing_else(sweep: Sweep) -> None:
    varied = {
        each.name
        for each in fields(Setting)
        if each.name != "label"
        and len({getattr(setting, each.name) for setting in sweep.settings}) > 1
    }
    two = {"mode", "ratio"}  # a ratio means something else in each mode
    assert len(varied) == (2 if sweep.name in two else 1)
    assert len({setting.label for setting in sweep.settings}) == len(sweep.settings)


def test_requests_follow_the_seed_and_only_it() -> None:
    sweep = SWEEPS[0]
    assert asks(sweep, 20, seed=1) == asks(sweep, 20, seed=1) != asks(sweep, 20, seed=2)
    assert {ask.at for ask in asks(sweep, 20, seed=1)} == {0.0}


def test_poisson_arrivals_keep_their_rate() -> None:
    (sweep,) = (each for each in SWEEPS if each.rate is not None)
    last = asks(sweep, 4000, seed=3)[-1].at
    assert last == pytest.approx(1000, rel=0.1)


def test_the_page_has_every_setting_with_median_and_spread() -> None:
    runs = [
        Taken(tokens_per_second=n, ttft_p50=1, ttft_p99=2, gap_p50=3, gap_p99=4)
        for n in (10.0, 30.0, 20.0)
    ]
    results = [Result(sweep=s, runs={t.label: runs for t in s.settings}) for s in SWEEPS]
    text = page(results, {"cpu": "a cpu"}, "python bench/sweeps.py")
    for sweep in SWEEPS:
        assert f"(batching/{sweep.name}.svg)" in text
        for setting in sweep.settings:
            assert f"| {setting.label} | 20 (10..30) | 1 (1..1) |" in text
    assert plot(results[0]).startswith("<svg")
