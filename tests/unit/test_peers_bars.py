"""When is a bar met, missed, or not decided? From made-up measurements of both sides."""

import random

import pytest

from peers.bars import BARS, Bar, Said, judge, ratio_interval
from peers.figures import OUTPUT, TTFT_P99, by_server, rate
from peers.workloads import SHARE_OF_PEER
from splitpool_bench.stats import p99
from unit.peers_documents import document, request

OURS, THEIRS = ("splitpool-bf16", "vllm")


def outputs(server: str, *rates: float) -> list[dict[str, object]]:
    return [
        document(server, "W2", [], repeat, output_tokens_per_second=value)
        for repeat, value in enumerate(rates)
    ]


@pytest.mark.parametrize(
    ("ours", "said"),
    [
        ((150.0, 151.0, 149.0), "met"),
        ((130.0, 131.0, 129.0), "missed"),
        ((120.0, 150.0, 141.0), "not decided"),
        ((150.0,), "not decided"),  # one repeat has no spread
    ],
)
def test_a_bar_is_met_when_the_whole_interval_clears_it(
    ours: tuple[float, ...], said: Said
) -> None:
    bar = Bar(
        group="", kind=OUTPUT, ours=(OURS, "W2"), theirs=(THEIRS, "W2"), limit=1.4, at_least=True
    )
    measured = by_server([*outputs(OURS, *ours), *outputs(THEIRS, 100.0, 100.5, 99.5)])

    assert judge(bar, measured).said == said


@pytest.mark.parametrize(("ours", "said"), [(0.05, "met"), (0.3, "missed"), (0.1, "not decided")])
def test_a_wait_must_stay_below_its_bar(ours: float, said: Said) -> None:
    rng = random.Random(1)
    waits = [[request(middle * rng.uniform(0.5, 1.5)) for _ in range(400)] for middle in (ours, 1)]
    measured = by_server([document(OURS, "W5", waits[0]), document(THEIRS, "W5", waits[1])])
    bar = Bar(group="", kind=TTFT_P99, ours=(OURS, "W5"), theirs=(THEIRS, "W5"), limit=0.1)

    assert judge(bar, measured).said == said


def test_batch_jobs_do_not_count_as_waiting() -> None:
    short = [request(0.1) for _ in range(50)]
    jobs = [request(30.0, **{"class": "batch"}) for _ in range(8)]
    measured = by_server([document(OURS, "W5", short + jobs), document(OURS, "W4", short)])
    (bar,) = [each for each in BARS if each.ours == (OURS, "W5") and each.theirs == (OURS, "W4")]

    assert judge(bar, measured).ratio == pytest.approx(1.0)


def test_all_repeats_of_a_p99_are_pooled() -> None:
    calm = document(OURS, "W4", [request(0.1) for _ in range(99)], 0)
    rough = document(OURS, "W4", [request(0.1) for _ in range(95)] + [request(9.0)] * 4, 1)
    bar = Bar(group="", kind=TTFT_P99, ours=(OURS, "W4"), theirs=(OURS, "W4"), limit=1.0)

    assert judge(bar, by_server([calm, rough])).ours == pytest.approx(9000.0)


def test_a_missing_side_is_not_measured() -> None:
    verdicts = [judge(bar, by_server(outputs(OURS, 100.0))) for bar in BARS]

    assert {verdict.said for verdict in verdicts} == {"not measured"}


def test_failed_requests_are_told() -> None:
    broken = document(OURS, "W2", [request(0.1), request(0.1, failure="timeout")])
    bar = Bar(group="", kind=OUTPUT, ours=(OURS, "W2"), theirs=(THEIRS, "W2"), limit=1.0)

    assert judge(bar, by_server([broken, *outputs(THEIRS, 100.0)])).failed == 1


def test_the_interval_holds_the_true_ratio_in_most_draws() -> None:
    rng = random.Random(4)
    held = 0
    for _ in range(15):
        a = [rng.expovariate(1.0) for _ in range(300)]
        b = [rng.expovariate(0.5) for _ in range(300)]
        low, high = ratio_interval(a, b, p99)
        held += low <= 0.5 <= high

    assert held >= 11  # 95 % are promised; a bootstrap of a p99 of 300 keeps a little less


def test_where_both_had_the_same_requests_their_bursts_are_no_difference() -> None:
    rng = random.Random(5)
    a = [rng.expovariate(1.0) for _ in range(300)]
    b = [2 * value for value in a]
    apart, together = ratio_interval(a, b, p99), ratio_interval(a, b, p99, paired=True)

    assert list(together) == pytest.approx([0.5, 0.5])
    assert apart[1] - apart[0] > 0.1


def test_a_repeat_in_which_all_were_slower_is_no_difference() -> None:
    bar = Bar(group="", kind=OUTPUT, ours=(OURS, "W2"), theirs=(THEIRS, "W2"), limit=1.4)
    rates = (100.0, 70.0, 90.0)
    measured = by_server([*outputs(OURS, *(1.5 * x for x in rates)), *outputs(THEIRS, *rates)])

    assert list(judge(bar, measured).interval) == pytest.approx([1.5, 1.5])


def test_only_the_requests_of_minutes_are_pairs() -> None:
    rng = random.Random(6)
    waits = [rng.expovariate(1.0) for _ in range(50)]
    theirs, ours = [request(wait) for wait in waits], [request(2 * wait) for wait in waits]
    limits = {}
    for workload in ("W3", "W4"):
        bar = Bar(
            group="", kind=TTFT_P99, ours=(OURS, workload), theirs=(THEIRS, workload), limit=1
        )
        both = [document(OURS, workload, ours), document(THEIRS, workload, theirs)]
        limits[workload] = judge(bar, by_server(both)).interval

    assert list(limits["W4"]) == pytest.approx([2.0, 2.0])
    assert limits["W3"] != limits["W4"]


def test_the_rate_is_a_share_of_the_best_peers() -> None:
    slow = document("llamacpp-bf16", "W2", [], requests_per_second=1.5)
    fast = document("vllm", "W2", [], requests_per_second=4.0)
    ours = document(OURS, "W2", [], requests_per_second=9.0)
    measured = by_server([slow, fast, ours])

    found = rate(measured, ["vllm", "llamacpp-bf16"], SHARE_OF_PEER)

    assert found is not None
    assert found[0] == pytest.approx(2.4)
    assert found[1] == "vllm"
    assert rate(measured, ["openvino-int8"], SHARE_OF_PEER) is None
