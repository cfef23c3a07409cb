"""The operator's questions, answered by Prometheus' own engine: promtool plays two routers."""

import json
import subprocess
from pathlib import Path
from typing import Any

from splitpool_operator.autoscaling.queries import queries
from splitpool_operator.autoscaling.state import Pace

# Every 15 s for 20 minutes, the last one at the moment of the question.
STEPS, AT = 80, "20m"
A = 'namespace="team",pool="a",class="interactive",model="m"'
B = 'namespace="team",pool="b",class="batch",model="n"'
ROUTER = "splitpool_router_"


def counter(name: str, labels: str, rate: float) -> dict[str, str]:
    """So many a second."""
    return {"series": f"{name}{{{labels}}}", "values": f"0+{rate * 15:g}x{STEPS}"}


def gauge(name: str, labels: str, value: float) -> dict[str, str]:
    return {"series": f"{name}{{{labels}}}", "values": f"{value:g}x{STEPS}"}


def gauges(labels: str, *values: float) -> list[dict[str, str]]:
    names = ("queue_requests", "running_requests", "queue_tokens", "running_tokens")
    return [gauge(ROUTER + name, labels, value) for name, value in zip(names, values, strict=True)]


def histogram(name: str, labels: str) -> list[dict[str, str]]:
    """Half within a second, half between one and two."""
    edges = {"1": 1.0, "2": 2.0, "+Inf": 2.0}
    return [
        counter(f"{ROUTER}{name}_seconds_bucket", f'{labels},le="{edge}"', rate)
        for edge, rate in edges.items()
    ]


ONE, OTHER = f'{A},instance="r0"', f'{A},instance="r1"'
ALERT = f'alertname="SplitpoolTTFTP99High",alertstate="firing",severity="warning",{A}'
BUSY = [
    counter(f"{ROUTER}ttft_target_total", f'{ONE},within="true"', 1),
    counter(f"{ROUTER}ttft_target_total", f'{OTHER},within="true"', 1),
    counter(f"{ROUTER}ttft_target_total", f'{ONE},within="false"', 0.5),
    counter(f"{ROUTER}requests_total", f'{ONE},code="429",reason="queue_full"', 0.2),
    counter(f"{ROUTER}requests_total", f'{OTHER},code="429",reason="queue_timeout"', 0.1),
    counter(f"{ROUTER}requests_total", f'{ONE},code="200",reason=""', 5),
    *gauges(ONE, 2, 4, 100, 10),
    *gauges(OTHER, 1, 3, 50, 20),
    *histogram("ttft", f'{ONE},stream="true",input="le128"'),
    *histogram("ttft", f'{OTHER},stream="true",input="le512"'),
    *histogram("ttft_queue", ONE),
    *histogram("ttft_service", ONE),
    counter("splitpool_worker_tokens_total", f'{A},kind="prompt"', 8),
    counter("splitpool_worker_tokens_total", f'{A},kind="generation",pod="w1"', 16),
    counter("splitpool_worker_tokens_total", f'{A},kind="cached"', 99),
    *gauges(f'{B},instance="r0"', 0, 0, 0, 0),
]
EXPECTED = {
    "age": 0,
    "observed": 40,
    "firing": 1,
    "fired": 1,
    "rate": 2.5,
    "late": 0.5,
    "peak_rate": 2.5,
    "refused": 0.3,
    "ttft": 1.98,
    "queue": 1.98,
    "service": 1.98,
    "waiting": 3,
    "peak_waiting": 3,
    "running": 7,
    "peak_running": 7,
    "backlog": 180,
    "peak_backlog": 180,
    "throughput": 24,
}
# A pool that nobody asks has gauges, and no counter.
IDLE = {"age": 0, "observed": 40, **dict.fromkeys(("waiting", "running", "backlog"), 0)} | {
    f"peak_{name}": 0 for name in ("waiting", "running", "backlog")
}


def played(promtool: Path, folder: Path, series: list[Any], expected: dict[str, Any]) -> None:
    """Fails where Prometheus answers something else: each name with its samples by pool."""
    tests = [
        {
            "expr": text,
            "eval_time": AT,
            "exp_samples": [
                {"labels": f'{{namespace="team",pool="{pool}",class="{cls}"}}', "value": value}
                for (pool, cls), value in expected[name].items()
            ],
        }
        for name, text in queries(Pace()).items()
        if name in expected
    ]
    case = {"interval": "15s", "input_series": series, "promql_expr_test": tests}
    file = folder / "case.json"
    file.write_text(json.dumps({"fuzzy_compare": True, "tests": [case]}))
    command = [str(promtool), "test", "rules", str(file)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_every_figure_is_summed_over_routers_and_pools_do_not_mix(
    promtool: Path, tmp_path: Path
) -> None:
    expected = {
        name: {("a", "interactive"): value} | ({("b", "batch"): IDLE[name]} if name in IDLE else {})
        for name, value in EXPECTED.items()
    }
    assert {*expected} == {*queries(Pace())}
    played(promtool, tmp_path, [*BUSY, gauge("ALERTS", ALERT, 1)], expected)


def test_an_alert_of_a_prometheus_that_was_killed_fires_no_longer(
    promtool: Path, tmp_path: Path
) -> None:
    """Its last sample is two minutes old."""
    old = {"series": f"ALERTS{{{ALERT}}}", "values": "1x72 _x8"}
    owner = ("a", "interactive")
    played(promtool, tmp_path, [*BUSY, old], {"firing": {}, "fired": {owner: 1}})


def test_samples_that_nobody_renews_grow_old(promtool: Path, tmp_path: Path) -> None:
    old = {"series": f"{ROUTER}queue_requests{{{ONE}}}", "values": "1x70 _x10"}
    played(promtool, tmp_path, [old], {"age": {("a", "interactive"): 150}})
