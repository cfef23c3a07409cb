"""Every series of rules, dashboards and samples is one that a running program exports.

A real Prometheus scrapes a real router, real workers and a real operator.
"""

import asyncio
import re
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import aiohttp
import pytest

from chart.alerting import alerts, rules_text
from chart.boards.all_boards import DASHBOARDS
from chart.test_optional import EVERY_API, OBSERVED
from cluster.api import Api, eventually
from cluster.chart import rendered
from cluster.control_plane import ControlPlane
from cluster.monitoring import MonitoringPrograms
from cluster.operators import operating
from cluster.processes import free_ports
from cluster.prometheus_server import PrometheusServer, Target, scraping
from cluster.promql import Selector, selectors
from cluster.watched_pool import WatchedPool
from e2e.conftest import small_pool
from splitpool_bench.chain import Chain, running

# A second interactive worker is the operator's own decision: one is declared.
MOVED = {
    "spec.autoscaling": {
        "mode": "Managed",
        "interactive": {"minReplicas": 2, "maxReplicas": 2},
    }
}
VARIABLES = {"$namespace": ".*", "$pool": ".*", "$class": ".*", "$__rate_interval": "1m"}
SAMPLE = {'namespace="team-a"': 'namespace="default"', 'pool="assistant"': 'pool="small"'}


def panels() -> Iterator[tuple[str, str, str]]:
    """Dashboard and panel, expression, legend of every query."""
    for dashboard in DASHBOARDS:
        for panel in dashboard.panels:
            for expression, legend in panel.queries:
                yield f"{dashboard.name}: {panel.title}", filled(expression, VARIABLES), legend


def filled(expression: str, words: dict[str, str]) -> str:
    for word, value in words.items():
        expression = expression.replace(word, value)
    return expression


def expressions() -> Iterator[str]:
    """Of dashboards, alerts and the samples for KEDA."""
    yield from (expression for _, expression, _ in panels())
    yield from (each["expr"] for each in alerts(rules_text()))
    for each in rendered(*OBSERVED, *EVERY_API):
        if each["kind"] == "ScaledObject":
            for trigger in each["spec"]["triggers"]:
                yield filled(trigger["metadata"]["query"], SAMPLE)


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chain]:
    """Router and worker, and a little of everything that they count."""
    folder = tmp_path_factory.mktemp("chain")
    with running(small_pool(folder), folder) as chain:
        asyncio.run(use(chain))
        yield chain


async def use(chain: Chain) -> None:
    """Streams of both classes, one of them read again, an answer that is not streamed."""
    body = {"model": chain.model, "prompt": "Once upon a time", "max_tokens": 8}
    url = f"{chain.url}/v1/completions"
    async with aiohttp.ClientSession() as http:
        for name in ("interactive", "batch"):
            headers = {"X-Splitpool-Class": name, "X-Splitpool-Resumable": "true"}
            async with http.post(url, json=body | {"stream": True}, headers=headers) as answer:
                stream = answer.headers["X-Splitpool-Stream-Id"]
                await answer.read()
            async with http.get(f"{chain.url}/v1/streams/{stream}") as answer:
                await answer.read()
            async with http.post(url, json=body, headers={"X-Splitpool-Class": name}) as answer:
                await answer.read()


@pytest.fixture
def prometheus(
    control_plane: ControlPlane,
    admin: Api,
    namespace: str,
    monitoring: MonitoringPrograms,
    chain: Chain,
    tmp_path: Path,
) -> Iterator[PrometheusServer]:
    """It scrapes all of them, and the operator scales a pool."""
    (port,) = free_ports(1)
    place = {"pool": "small", "namespace": "default", "role": "shared"}
    targets = [
        Target("router", chain.url.removeprefix("http://")),
        *(Target("worker", each.url.removeprefix("http://"), place) for each in chain.workers()),
        Target("operator", f"127.0.0.1:{port}"),
    ]
    with (
        operating(control_plane, namespace, "observed", ["--health-port", str(port)]),
        scraping(monitoring, tmp_path, targets) as server,
    ):
        WatchedPool(admin, namespace).declare(MOVED)
        eventually(lambda: all(each.value for each in server.query("up")), "all are scraped")
        yield server


def test_every_series_is_exported_with_the_labels_that_are_asked_for(
    prometheus: PrometheusServer,
) -> None:
    wanted = {
        selector
        for expression in expressions()
        for selector in selectors(prometheus.parsed(expression))
    }
    assert len({each.name for each in wanted}) > 40

    def missing() -> list[Selector]:
        return [each for each in wanted if not _there(prometheus, each)]

    try:
        eventually(lambda: not missing(), "every series is there", 30)
    except TimeoutError:
        assert [each.expression() for each in missing()] == []
    moved = 'splitpool_operator_scale_decisions_total{class="interactive",reason="WithinBounds"}'
    assert [each.value for each in prometheus.query(moved)] == [1]


def _there(prometheus: PrometheusServer, selector: Selector) -> bool:
    """Whether the series has samples, all with the labels that are grouped by."""
    found = prometheus.query(selector.expression())
    return bool(found) and all(selector.grouping <= {*each.labels} for each in found)


def test_every_legend_names_labels_that_its_query_has(prometheus: PrometheusServer) -> None:
    rates = ("vllm:request_success_total", "splitpool_operator_reconcile_seconds_bucket")
    for name in rates:
        eventually(lambda name=name: prometheus.query(f"rate({name}[1m])"), "it has a rate")  # type: ignore[misc]
    seen = 0
    for panel, expression, legend in panels():
        for each in prometheus.query(expression):
            wanted = {*re.findall(r"{{(\w+)}}", legend)}
            assert wanted <= {*each.labels}, panel
            seen += 1
    assert seen > 50


def test_metrics_are_given_without_a_token(chain: Chain) -> None:
    for url in (chain.url, *(each.url for each in chain.workers())):
        with urllib.request.urlopen(f"{url}/metrics", timeout=10) as answer:
            assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
