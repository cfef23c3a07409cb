"""The server's own figures of the time to the first token, beside the client's."""

import pytest

from splitpool_bench.measuring.served import Agreement, Served, agreements, between, sums
from unit.bench_outcomes import outcome

LABELS = 'pool="p",namespace="n",class="interactive",model="m"'


def router(count: int, ttft: float, queue: float, write: float, model: str = "m") -> str:
    """The series of a router after `count` first tokens."""
    labels = LABELS.replace('"m"', f'"{model}"')
    return "\n".join(
        (
            "# TYPE splitpool_router_ttft_seconds histogram",
            f'splitpool_router_ttft_seconds_sum{{{labels},stream="true",input="le128"}} {ttft}',
            f'splitpool_router_ttft_seconds_count{{{labels},stream="true",input="le128"}} {count}',
            f'splitpool_router_ttft_seconds_sum{{{labels},stream="false",input="le128"}} 99',
            f'splitpool_router_ttft_seconds_count{{{labels},stream="false",input="le128"}} 99',
            "# TYPE splitpool_router_ttft_queue_seconds histogram",
            f"splitpool_router_ttft_queue_seconds_sum{{{labels}}} {queue}",
            f"splitpool_router_ttft_queue_seconds_count{{{labels}}} {count}",
            "# TYPE splitpool_router_ttft_overhead_seconds histogram",
            f'splitpool_router_ttft_overhead_seconds_sum{{{labels},part="write"}} {write}',
            f'splitpool_router_ttft_overhead_seconds_count{{{labels},part="write"}} {count}',
            "",
        )
    )


VLLM = """\
# TYPE vllm:time_to_first_token_seconds histogram
vllm:time_to_first_token_seconds_sum{model_name="m"} 2
vllm:time_to_first_token_seconds_count{model_name="m"} 4
# TYPE vllm:request_queue_time_seconds histogram
vllm:request_queue_time_seconds_sum{model_name="m"} 1
vllm:request_queue_time_seconds_count{model_name="m"} 4
"""


def test_only_streamed_answers_of_this_model_between_two_readings_count() -> None:
    before, after = sums(router(2, 0.2, 0.1, 0.0), "m"), sums(router(6, 1.0, 0.5, 0.08), "m")
    (served,) = between(before, after)

    assert (served.latency_class, served.by, served.count) == ("interactive", "router", 4)
    assert served.ttft == pytest.approx(0.2)
    assert served.parts == {"queue": pytest.approx(0.1), "write": pytest.approx(0.02)}
    assert sums(router(2, 0.2, 0.1, 0.0, model="other"), "m") is None


def test_a_server_with_vllms_series_is_understood() -> None:
    (served,) = between({}, sums(VLLM, "m"))

    assert (served.latency_class, served.by, served.count) == ("", "server", 4)
    assert served.ttft == pytest.approx(0.5)
    assert served.parts == {"queue": pytest.approx(0.25)}


@pytest.mark.parametrize("text", ["", "<html>", "up 1\n", "# TYPE a b c d\n{{{"])
def test_what_is_no_series_that_is_known_has_no_figures(text: str) -> None:
    assert between(sums(text, "m"), sums(text, "m")) == []


def served(ttft: float, count: int = 10) -> Served:
    return Served(latency_class="interactive", by="router", count=count, ttft=ttft, parts={})


def agreement(ttft: float, served_ttft: float, connect: float = 0.0, count: int = 10) -> Agreement:
    return Agreement(served=served(served_ttft, count), count=10, ttft=ttft, connect=connect)


def test_within_5_percent_they_agree() -> None:
    assert "they agree" in agreement(0.100, 0.096).said()


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (agreement(0.2, 0.1, connect=0.08), "connecting takes 80.0 ms of it"),
        (agreement(0.2, 0.1, connect=0.01), "the network and reading in the load generator"),
        (agreement(0.1, 0.2), "the server counts 100.0 ms that the client did not wait for"),
    ],
)
def test_beyond_it_the_part_that_differs_is_named(found: Agreement, said: str) -> None:
    assert not found.agrees
    assert said in found.said()


def test_figures_with_others_among_them_are_not_compared() -> None:
    found = agreement(0.1, 0.1, count=15)

    assert not found.comparable
    assert "counted 15 first tokens and the client 10" in found.said()


def test_the_parts_add_up_to_the_clients_ttft() -> None:
    outcomes = [outcome(1.0, ttft=0.3, connected=1.1), outcome(2.0, ttft=0.5, connected=2.1)]
    parts = {"queue": 0.05, "prefill": 0.15}
    one = Served(latency_class="interactive", by="router", count=2, ttft=0.2, parts=parts)
    (found,) = agreements([one], outcomes)

    assert found.ttft == pytest.approx(0.4)
    assert found.connect == pytest.approx(0.1)
    assert sum(found.parts().values()) == pytest.approx(found.ttft)
