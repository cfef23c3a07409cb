"""Prometheus' answers and Alertmanager's calls become signals and names, or are refused."""

import json
import math
from typing import Any

import pytest

from splitpool_operator.autoscaling.alerts import Malformed, named_pools
from splitpool_operator.autoscaling.queries import queries, step_seconds
from splitpool_operator.autoscaling.readings import Unreadable, read
from splitpool_operator.autoscaling.state import Pace

PACE = Pace()
OWNER = ("team", "assistant", "interactive")


def sample(value: Any, **labels: str) -> dict[str, Any]:
    named = {"namespace": "team", "pool": "assistant", "class": "interactive"} | labels
    return {"metric": named, "value": [1764460800.0, value]}


def answers(**given: list[Any]) -> dict[str, Any]:
    """Answers to every query; a router that knows a pool always has its gauges."""
    gauges = {name: [sample("0")] for name in ("age", "observed", "waiting", "running", "backlog")}
    return {name: [] for name in queries(PACE)} | gauges | given


def test_a_pool_that_nobody_has_asked_yet_is_measured_and_idle() -> None:
    seen = read(answers(observed=[sample("40")]), PACE)[OWNER]
    assert (seen.rate, seen.within, seen.refused, seen.firing, seen.fired) == (
        0,
        0,
        0,
        False,
        False,
    )
    assert (seen.ttft, seen.queue, seen.service, seen.share) == (None, None, None, None)
    assert seen.observed == 600


def test_hits_are_what_was_asked_less_the_misses() -> None:
    seen = read(answers(rate=[sample("2")], late=[sample("2")], firing=[sample("1")]), PACE)[OWNER]
    assert (seen.share, seen.firing, seen.severe) == (0, True, True)


def test_quantiles_of_nothing_are_none_and_other_nonsense_stays_nonsense() -> None:
    seen = read(answers(ttft=[sample("NaN")], queue=[sample("+Inf")], rate=[sample("NaN")]), PACE)
    assert seen[OWNER].ttft is None
    assert seen[OWNER].queue == math.inf
    assert math.isnan(seen[OWNER].rate)


def test_pools_do_not_mix_and_series_of_others_are_passed_over() -> None:
    strange = {"metric": {"job": "node"}, "value": [0, "7"]}
    seen = read(answers(rate=[sample("3", pool="other"), strange]), PACE)
    assert set(seen) == {OWNER}
    assert seen[OWNER].rate == 0


def test_a_class_without_its_gauges_is_not_measured() -> None:
    assert read(answers(waiting=[]), PACE) == {}


@pytest.mark.parametrize(
    "vector", ["text", [1], [{}], [sample("x")], [sample(None)], [{"metric": 1}], 7]
)
def test_what_is_no_vector_is_refused(vector: Any) -> None:
    with pytest.raises(Unreadable):
        read(answers(rate=vector), PACE)


def test_short_windows_are_looked_at_more_often() -> None:
    assert (step_seconds(PACE), step_seconds(Pace(quiet=40)), step_seconds(Pace(quiet=4))) == (
        *(15, 5),
        1,
    )


def call(*labels: dict[str, Any], version: str = "4") -> bytes:
    alerts = [{"status": "firing", "labels": each} for each in labels]
    return json.dumps({"version": version, "alerts": alerts, "later": 1}).encode()


def test_a_call_names_pools() -> None:
    one = {"alertname": "SplitpoolTTFTP99High", "namespace": "team", "pool": "assistant"}
    assert named_pools(call(one, one, {"namespace": "x"}, {"pool": 7, "namespace": "x"})) == {
        ("team", "assistant")
    }


@pytest.mark.parametrize(
    "body",
    [
        *(b"", b"{", b"[]", b"7", b"\xff", b"[" * 100_000, b'{"version": "4"}'),
        *(b'{"version": "4", "alerts": {}}', call(version="3")),
    ],
)
def test_what_is_no_call_is_refused(body: bytes) -> None:
    with pytest.raises(Malformed):
        named_pools(body)


def test_strange_alerts_name_nothing() -> None:
    assert named_pools(b'{"version": "4", "alerts": [1, {}, {"labels": 2}, null]}') == set()
