"""The search for the highest rate that keeps the targets."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from splitpool_bench.measuring.goodput import LEAST_RATE, MOST_PROBES, Probe, Search, why_not
from splitpool_bench.measuring.options import Targets
from unit.bench_outcomes import outcome, point


def searched(limit: float, first: float = 1.0, precision: float = 0.1) -> Search:
    """At a server that keeps the targets up to `limit`."""
    search = Search(first=first, precision=precision)
    while (rate := search.rate) is not None:
        search.tried(Probe(rate=rate, failure=None if rate <= limit else "too slow"))
    return search


@given(
    limit=st.floats(2 * LEAST_RATE, 1000),
    first=st.floats(0.1, 100),
    precision=st.floats(0.02, 0.5),
)
def test_the_rate_is_found_to_its_precision(limit: float, first: float, precision: float) -> None:
    found = searched(limit, first, precision).found

    assert found.rate is not None
    assert found.above is not None
    assert found.rate <= limit < found.above
    assert found.above / found.rate <= 1 + precision + 1e-9
    assert len(found.probes) <= MOST_PROBES


def test_a_server_that_keeps_them_at_no_rate_ends_the_search() -> None:
    found = searched(limit=0.0).found

    assert found.rate is None
    assert len(found.probes) < MOST_PROBES


def test_a_server_without_a_limit_ends_it_too() -> None:
    found = searched(limit=float("inf")).found

    assert len(found.probes) == MOST_PROBES
    assert found.above is None


def test_a_rate_that_keeps_the_targets_while_its_backlog_grows_does_not_count() -> None:
    starts = [n / 10 for n in range(100)]
    behind = point(*(outcome(at, ttft=0.1, tpot=at, tokens=2) for at in starts))

    said = why_not(behind, Targets(ttft_p99=0.5), "interactive")

    assert said is not None
    assert "the backlog grows" in said


@pytest.mark.parametrize(("cls", "counts"), [("interactive", True), ("batch", False)])
def test_targets_are_those_of_the_class_that_is_measured(cls: str, counts: bool) -> None:
    slow = point(outcome(ttft=0.1), outcome(ttft=9.0, latency_class="batch"))

    assert (why_not(slow, Targets(ttft_p99=0.5), cls) is None) is counts
