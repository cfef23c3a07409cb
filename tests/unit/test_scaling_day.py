"""The simulated day: its pool, its alert, the HPA's rule, and what the rules make of two hours."""

import math

import pytest

from splitpool_bench.scaling.alert import Alert
from splitpool_bench.scaling.day import DAY_SECONDS, Traffic
from splitpool_bench.scaling.playing import play
from splitpool_bench.scaling.policies import Fixed, Hpa, Law, by_load, by_ttft
from splitpool_bench.scaling.pool import Counts, Pool, Worker
from splitpool_operator.autoscaling.state import Limits

LIMITS = Limits(low=1, high=10)


def pool(*, slots: int = 1, holds: float = 1e-9, start: float = 60.0, seconds: int = 7200) -> Pool:
    worker = Worker(slots=slots, holds=holds, start=start)
    return Pool(worker, target=0.5, timeout=10.0, seconds=seconds)


def test_a_request_without_a_worker_waits_for_its_start_and_is_late() -> None:
    of = pool(start=3.0)
    of.scale(1)
    of.arrive(1.0)
    of.advance(2.0)
    assert (len(of.waiting), sum(of.counts.misses)) == (1, 1)
    of.advance(5.0)
    assert of.counts.waits[3] == [2.0]
    assert (sum(of.counts.hits), sum(of.counts.misses), sum(of.counts.refused)) == (0, 1, 0)


def test_who_waits_too_long_is_refused_and_counts_once() -> None:
    of = pool(start=100.0)
    of.scale(1)
    of.arrive(1.0)
    of.advance(12.0)
    assert (len(of.waiting), sum(of.counts.misses), sum(of.counts.refused)) == (0, 1, 1)


def test_a_worker_that_leaves_ends_what_it_has() -> None:
    of = pool(holds=5.0)
    of.scale(2, started=True)
    of.arrive(0.5)
    of.arrive(0.6)
    assert of.running == 2
    of.scale(1)
    assert of.running == 1
    of.advance(7000.0)
    assert (of.running, sum(of.counts.hits)) == (0, 2)


def test_the_day_is_the_same_for_the_same_seed_and_busiest_at_noon() -> None:
    calm = Traffic(bursts=0)
    assert calm.rate(0, []) == calm.least
    assert math.isclose(calm.rate(DAY_SECONDS / 2, []), calm.most)
    short = Traffic(seconds=3600)
    assert short.arrivals(1) == short.arrivals(1) != short.arrivals(2)


def counts(misses: dict[int, int], hits: int = 1) -> Counts:
    of = Counts.over(3600)
    for second, missed in misses.items():
        of.misses[second] = missed
    of.hits = [hits] * 3600
    return of


def test_the_alert_is_pending_fires_and_fires_on() -> None:
    late = counts(dict.fromkeys(range(300, 600), 1))
    alert = Alert()
    fired = [now for now in range(0, 3600, 15) if alert.evaluate(late, now)]
    # More than a hundredth is late from 315 s to 885 s.
    assert fired == [*range(435, 1185, 15)]


def test_nothing_and_a_little_traffic_fire_no_alert() -> None:
    alert = Alert()
    assert not any(alert.evaluate(counts({}, hits=0), now) for now in range(0, 3600, 15))
    few = counts({100: 9, 900: 9}, hits=0)
    assert not any(alert.evaluate(few, now) for now in range(0, 3600, 15))


@pytest.mark.parametrize(
    ("ratio", "wanted"), [(1.0, 4), (1.09, 4), (1.2, 5), (2.0, 8), (9.0, 8), (None, 4), (0.5, 2)]
)
def test_the_hpas_rule(ratio: float | None, wanted: int) -> None:
    of = pool()
    of.scale(4, started=True)
    assert Hpa(LIMITS, lambda _: ratio).wanted(of) == wanted


def test_the_hpa_takes_nothing_that_was_wanted_five_minutes_ago() -> None:
    of, ratios = pool(), [1.0, 0.25]
    of.scale(4, started=True)
    hpa = Hpa(LIMITS, lambda _: ratios[0])
    assert hpa.wanted(of) == 4
    ratios.pop(0)
    of.advance(299.0)
    assert hpa.wanted(of) == 4
    of.advance(301.0)
    assert hpa.wanted(of) == 1


def test_metrics_of_the_hpa() -> None:
    of = pool(slots=2, holds=1e9)
    of.scale(2, started=True)
    assert by_ttft()(of) is None
    for at in (1.0, 1.1, 1.2, 1.3, 1.4, 1.5):
        of.arrive(at)
    assert by_load(2)(of) == 1.5
    of.advance(5.0)
    assert by_ttft()(of) == pytest.approx(0.12 / 0.5)


def test_ours_meets_the_target_for_more_of_the_time_than_one_worker_and_moves_seldom() -> None:
    """Two hours at 1.5 times what a worker can do."""
    traffic = Traffic(least=3.0, most=3.0, bursts=0, seconds=7200)

    def outcome(policy: Law | Fixed | Hpa) -> tuple[float, int]:
        of = pool(slots=8, holds=4.0)
        found = play(of, policy, traffic.arrivals(3), first=1)
        assert found.requests > 20_000
        return found.minutes_over, found.changes

    alone, _ = outcome(Fixed(1))
    ours, changes = outcome(Law(LIMITS))
    assert alone > 0.95
    assert ours < 0.15
    assert changes <= 12
    assert changes < outcome(Hpa(LIMITS, by_load(6)))[1]
