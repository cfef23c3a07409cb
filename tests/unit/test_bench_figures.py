"""What outcomes amount to: figures, targets, backlog, and what a reader should doubt."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from splitpool_bench.measuring.doubts import doubts
from splitpool_bench.measuring.figures import by_class, length_group, missed, share_within
from splitpool_bench.measuring.generator import Generator
from splitpool_bench.measuring.options import OpenLoop, Options, Targets
from splitpool_bench.measuring.planned import Mix, Range
from splitpool_bench.measuring.point import Point, WarmUp
from splitpool_bench.measuring.result import Measured, Result
from splitpool_bench.measuring.timeline import backlog_at, backlog_grows, timeline
from unit.bench_outcomes import IDLE, outcome, point, refused

ANY = Range(low=1, high=1)
OPTIONS = Options(
    load=OpenLoop(rates=(1.0,)),
    mix=Mix(
        latency_class="interactive", prompt=ANY, output=ANY, other_prompt=ANY, other_output=ANY
    ),
    requests=1,
)


def result(*points: Point, repeated: bool = False) -> Result:
    server = Measured(
        url="http://a",
        model="m",
        counting="tokenizer",
        warm_up=WarmUp(first_ttft=None, outcomes=()),
        points=points,
        repeated=repeated,
    )
    return Result(options=OPTIONS, about={}, servers=(server,))


@pytest.mark.parametrize(
    ("tokens", "group"),
    [(1, "le128"), (128, "le128"), (129, "le512"), (8192, "le8192"), (8193, "more")],
)
def test_a_prompt_belongs_to_the_group_of_its_length(tokens: int, group: str) -> None:
    assert length_group(tokens) == group


def test_classes_and_length_groups_stand_apart_and_failures_are_counted() -> None:
    rows = by_class(
        [
            outcome(prompt_tokens=10),
            outcome(prompt_tokens=600),
            outcome(latency_class="batch"),
            refused(),
            refused(status=500),
        ]
    )

    assert [(row.latency_class, row.group, row.requests) for row in rows] == [
        ("interactive", "all", 4),
        ("interactive", "le128", 1),
        ("interactive", "le2048", 1),
        ("batch", "all", 1),
    ]
    assert (rows[0].succeeded, rows[0].rejected, rows[0].failed) == (2, 1, 1)


def test_ttft_tpot_and_itl_are_of_their_own_definition() -> None:
    (row,) = by_class([outcome(ttft=0.2, tpot=0.03, tokens=4)])

    assert row.ttft.p50 == pytest.approx(0.2)
    assert row.tpot.p50 == pytest.approx(0.03)
    assert row.itl.count == 3
    assert row.itl.p50 == pytest.approx(0.03)
    assert math.isnan(row.itl.p99_interval[0])


def test_nothing_has_no_figures_and_is_no_error() -> None:
    (row,) = by_class([refused()])

    assert row.ttft.count == 0
    assert math.isnan(row.ttft.p99)


def test_a_request_that_failed_kept_no_target() -> None:
    outcomes = [outcome(ttft=0.1), refused()]

    assert share_within(outcomes, lambda each: each.ttft, 10.0) == 0.5


@given(late=st.integers(0, 5))
def test_a_p99_target_is_kept_by_99_of_100(late: int) -> None:
    outcomes = [outcome(ttft=0.1)] * (100 - late) + [outcome(ttft=0.9)] * late
    said = missed(outcomes, Targets(ttft_p99=0.5))

    assert (said is None) is (late <= 1)
    assert missed(outcomes, Targets()) is None


def test_the_target_that_is_missed_is_named() -> None:
    targets = Targets(ttft_p99=0.5, tpot_p99=0.005)

    assert missed([outcome(tpot=0.01)], targets) == "only 0% of the requests kept TPOT <= 5 ms"


def steady(rate: float, seconds: float, takes: float) -> Point:
    starts = [n / rate for n in range(int(rate * seconds))]
    return point(*(outcome(at, ttft=takes, tokens=1) for at in starts))


def test_a_server_that_keeps_up_has_no_growing_backlog() -> None:
    kept = steady(rate=5, seconds=60, takes=2.0)

    assert not backlog_grows(kept.outcomes, 0.0, kept.last_start)


def test_a_server_of_half_the_rate_has_a_growing_backlog() -> None:
    starts = [n / 5 for n in range(300)]
    behind = [outcome(at, ttft=2 * at - at + 0.1, tokens=1) for at in starts]

    assert backlog_grows(behind, 0.0, starts[-1])
    assert backlog_at(behind, starts[-1]) > 100


def test_nothing_that_arrived_at_once_grows() -> None:
    assert not backlog_grows([outcome()], 0.0, 0.0)


@given(starts=st.lists(st.floats(0, 100), min_size=1, max_size=20))
def test_at_every_moment_a_request_waits_or_produces_or_is_not_in_flight(
    starts: list[float],
) -> None:
    outcomes = [outcome(at, ttft=1.0, tpot=1.0) for at in starts]
    moments = timeline(outcomes, 0.0, moments=50)

    assert len(moments) == 51
    assert all(0 <= each.in_flight <= len(outcomes) for each in moments)
    assert all(each.in_flight == backlog_at(outcomes, each.at) for each in moments)


def test_a_load_generator_that_was_fast_enough_is_not_blamed() -> None:
    (weak,) = doubts(result(point(outcome(), generator=IDLE)))

    assert "a p99 of 1 requests is weak" in weak


@pytest.mark.parametrize(
    ("seen", "said"),
    [
        (Generator(late_p99=0.0, lag_p99=0.0, cpu=0.97), "it used up to 97% of a core"),
        (Generator(late_p99=0.05, lag_p99=0.0, cpu=0.1), "requests started 50 ms late"),
        (Generator(late_p99=0.0, lag_p99=0.05, cpu=0.1), "read answers 50 ms late"),
    ],
)
def test_a_load_generator_that_was_the_limit_is_named(seen: Generator, said: str) -> None:
    first, _ = doubts(result(point(outcome(ttft=0.1), generator=seen)))

    assert first.startswith("the load generator was a limit: ")
    assert said in first


def test_a_delay_that_is_small_beside_ttft_is_no_limit() -> None:
    seen = Generator(late_p99=0.05, lag_p99=0.05, cpu=0.5)

    assert seen.limits(ttft_p50=2.0) == {}


def test_a_warm_prefix_cache_is_doubted() -> None:
    (said, _) = doubts(result(point(outcome(cached_tokens=50))))

    assert "50% of the prompts' tokens came from the server's prefix cache" in said


def test_repeats_are_pooled_before_their_p99_is_called_weak() -> None:
    half = point(*[outcome()] * 500)

    assert doubts(result(half, half, repeated=True)) == []
    assert "a p99 of 500" in doubts(result(half, half))[0]
