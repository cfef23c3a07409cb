"""Which requests each workload sends, and that all servers get the same."""

import io

import pytest

from peers.workloads import MINUTE, ONLINE, Workload, minutes, planned, trace
from splitpool_bench.measuring import trace as traces


@pytest.mark.parametrize("workload", ["W2", "W4", "W5"])
def test_a_repeat_is_the_same_for_every_server(workload: Workload) -> None:
    assert planned(workload, 3, 2.0) == planned(workload, 3, 2.0)


def test_w2_is_64_requests_at_once_of_the_asked_lengths() -> None:
    found = planned("W2", 0, 0.0)

    assert [each.at for each in found] == [0.0] * 64
    assert all(32 <= each.prompt_tokens <= 512 for each in found)
    assert all(16 <= each.output_tokens <= 256 for each in found)
    assert found == planned("W2", 1, 0.0)  # the same set, so that repeats can be compared


@pytest.mark.parametrize("workload", ONLINE)
def test_every_minute_has_other_arrivals(workload: Workload) -> None:
    first, second = planned(workload, 0, 2.0), planned(workload, 1, 2.0)

    assert [each.at for each in first] != [each.at for each in second]
    assert all(0 <= each.at < MINUTE for each in first)


def test_w5_is_w4_with_eight_batch_jobs_at_ten_seconds() -> None:
    alone, flooded = planned("W4", 2, 2.0), planned("W5", 2, 2.0)
    jobs = [each for each in flooded if each.latency_class == "batch"]

    assert [each for each in flooded if each.latency_class == "interactive"] == alone
    assert [(job.at, job.prompt_tokens, job.output_tokens) for job in jobs] == [
        (10.0, 1000, 256)
    ] * 8


@pytest.mark.parametrize("rate", [0.4, 2.1, 9.0])
def test_so_many_minutes_hold_the_wanted_requests(rate: float) -> None:
    count = minutes(rate, 1000)
    held = [len(planned("W4", repeat, rate)) for repeat in range(count)]

    assert sum(held) >= 1000 > sum(held[:-1])
    assert sum(held) / count == pytest.approx(rate * MINUTE, rel=0.15)


def test_a_trace_file_has_the_same_requests() -> None:
    wanted = planned("W5", 0, 2.0)
    read = traces.read(io.StringIO(trace(wanted)), "interactive")

    assert [(r.prompt_tokens, r.output_tokens, r.latency_class) for r in read] == [
        (r.prompt_tokens, r.output_tokens, r.latency_class) for r in wanted
    ]
