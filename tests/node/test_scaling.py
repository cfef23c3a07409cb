"""Autoscaling with real workers: late first tokens add one, at batch's cost; quiet takes it away.

Workers may use 300m of a CPU, so that another one adds capacity on a small machine. Prometheus,
Alertmanager, the chart's operator and its rules are real; the windows are short. It takes seven
minutes and more: `make measure` runs it, `make test` does not.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from chart.alerting import rules_text
from cluster import helm
from cluster.api import eventually
from cluster.monitoring import MonitoringPrograms, monitoring_programs
from cluster.prometheus_server import PrometheusServer
from cluster.watched_pool import WatchedPool
from node.cluster import RealCluster
from node.monitored import PROMETHEUS_PORT, monitored
from node.offers import Offers, offering
from node.release import OPERATOR, PATIENCE, RELEASE
from node.serving import declare, wait_ready

SECRET = "scaling-caller"
RULES = rules_text(
    *("--set", "monitoring.rules.window=30s,monitoring.rules.pendingFor=4s"),
    *("--set", "monitoring.rules.keepFiringFor=10s"),
)
SETTINGS = (
    f"operator.webhook.existingSecret={SECRET},operator.scaling.windowSeconds=30,"
    "operator.scaling.cooldownSeconds=15,operator.scaling.quietSeconds=60"
)
# Room for two workers: the second interactive one takes batch's place.
CHANGES = {
    "spec.accelerator.memory": "1536Mi",
    "spec.pools.batch.replicas": 1,
    "spec.pools.batch.hostMemory": "768Mi",
    # Longer than interactive has its place.
    "spec.pools.batch.queueTimeoutSeconds": 1800,
    "spec.pools.interactive.maxBatch": 2,
    "spec.pools.interactive.queueTimeoutSeconds": 60,
    "spec.podTemplate.resources": {"requests": {"cpu": "300m"}, "limits": {"cpu": "300m"}},
    "spec.autoscaling": {
        "mode": "Managed",
        "interactive": {"minReplicas": 1, "maxReplicas": 2},
        "batch": {"minReplicas": 0, "maxReplicas": 1},
    },
}
FIVE_MINUTES = 300.0


@pytest.fixture(scope="module")
def programs() -> MonitoringPrograms:
    return monitoring_programs()


@pytest.fixture
def prometheus(
    real: RealCluster, release: str, programs: MonitoringPrograms, tmp_path: Path
) -> Iterator[PrometheusServer]:
    """With the operator told of it; the release is as it was afterwards."""
    token = tmp_path / "token"
    token.write_text("between Alertmanager and the operator")
    metadata = {"name": SECRET, "namespace": release}
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata}
    made = real.admin.create(secret | {"stringData": {"token": token.read_text()}})
    url = f"http://{real.address}:{PROMETHEUS_PORT}"
    upgrade(real, "--reuse-values", "--set", f"operator.prometheus.url={url},{SETTINGS}")
    service = real.admin.get("v1", "Service", OPERATOR, release)
    webhook = f"http://{service['spec']['clusterIP']}:8082/alerts"
    with monitored(real, programs, tmp_path, rules=RULES, webhook=webhook, token=token) as server:
        yield server
    upgrade(real, "--reset-values", *helm.images(real.images))
    real.admin.delete(made)


def upgrade(real: RealCluster, *arguments: str) -> None:
    upgraded = real.helm(
        *("upgrade", RELEASE, str(helm.CHART), "--namespace", RELEASE),
        *("--wait", "--timeout", PATIENCE, *arguments),
    )
    assert upgraded.returncode == 0, upgraded.stderr


def replicas(pool: WatchedPool) -> tuple[int, int]:
    """Of interactive and batch."""
    first, second = (
        int(pool.child("Deployment", f"assistant-{name}")["spec"]["replicas"])
        for name in ("interactive", "batch")
    )
    return first, second


@pytest.mark.measured
@pytest.mark.timeout(1800)
def test_late_first_tokens_add_a_worker_in_batchs_place_and_quiet_gives_it_back(
    real: RealCluster, prometheus: PrometheusServer, namespace: str
) -> None:
    pool = WatchedPool(real.admin, namespace)
    declare(pool, CHANGES | {"spec.pools.interactive.ttftP99Ms": 60_000})
    wait_ready(pool)
    with offering(real, f"smollm2-{namespace}") as offers:
        # So batch does not sleep before it has to give way; it may have, while workers started.
        offers.keep("batch")
        eventually(lambda: replicas(pool) == (1, 1), "batch is awake", 60)
        wait_ready(pool)
        _overloaded(pool, prometheus, offers)
        _relieved(pool, prometheus)
        offers.offer(0)
        eventually(lambda: replicas(pool) == (1, 1), "it is given back", FIVE_MINUTES)
        # The one that came while batch was away has waited for it.
        assert {*offers.end()} == {200}
    assert _last(pool, "interactive").startswith("ScaledIn, 2 to 1")
    assert _last(pool, "batch").startswith("Woken, 0 to 1")


def _overloaded(pool: WatchedPool, prometheus: PrometheusServer, offers: Offers) -> None:
    """One and a half times what one worker can do, as measured just before."""
    firing = 'ALERTS{alertname="SplitpoolTTFTP99High",alertstate="firing",class="interactive"}'
    for _ in range(3):
        capacity = offers.measure(4, 20)
        target = int(1000 * 4 / capacity)
        pool.patch({"spec": {"pools": {"interactive": {"ttftP99Ms": target}}}})
        wait_ready(pool)
        assert replicas(pool) == (1, 1)
        offers.offer(1.5 * capacity)
        if _soon(lambda: prometheus.query(firing)):
            break
        # Other programs of the machine were in the way of the measurement.
        offers.offer(0)
    eventually(lambda: replicas(pool) == (2, 0), "a worker is added", FIVE_MINUTES)
    why = "ScaledOut, 1 to 2: SplitpoolTTFTP99High fires"
    eventually(lambda: why in _last(pool, "interactive"), "the status says why")
    assert _last(pool, "batch").startswith("GaveWay, 1 to 0: memory is needed")
    calls = 'splitpool_operator_alert_calls_total{result="taken"}'
    eventually(lambda: prometheus.query(f"sum({calls}) > 0"), "Alertmanager has called", 60)
    for name, reason in (("interactive", "ScaledOut"), ("batch", "GaveWay")):
        step = f'class="{name}",reason="{reason}"'
        made = f"splitpool_operator_scale_decisions_total{{{step}}} > 0"
        eventually(lambda made=made: prometheus.query(made), "the step is counted", 60)  # type: ignore[misc]


def _relieved(pool: WatchedPool, prometheus: PrometheusServer) -> None:
    """The same load, and of the first tokens less than one in a hundred is late."""
    target = (
        f'splitpool_router_ttft_target_total{{namespace="{pool.namespace}",class="interactive"}}'
    )
    late = target.replace("}", ',within="false"}')
    met = f"sum(rate({late}[30s])) / sum(rate({target}[30s])) < 0.01"
    eventually(lambda: prometheus.query(met), "first tokens are in time again", FIVE_MINUTES)
    assert replicas(pool) == (2, 0)


def _last(pool: WatchedPool, name: str) -> str:
    return str(pool.read()["status"]["pools"][name].get("lastScaleReason", ""))


def _soon(question: Callable[[], Any]) -> bool:
    try:
        return bool(eventually(question, "it is so", 120))
    except TimeoutError:
        return False
