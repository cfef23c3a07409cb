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
from node.serving import PATIENCE_SECONDS, declare, wait_ready

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
        # The best of several, on a machine that does much else.
        capacity = max(offers.measure(4, 15) for _ in range(2))
        target = 4.0 / capacity
        pool.patch({"spec": {"pools": {"interactive": {"ttftP99Ms": int(1000 * target)}}}})
        wait_ready(pool)
        assert replicas(pool)[0] == 1
        _overloaded(pool, prometheus, offers, 1.5 * capacity)
        _relieved(pool, prometheus, namespace)
        offers.offer(0)
        eventually(lambda: replicas(pool)[0] == 1, "it is taken away again", FIVE_MINUTES)
        # Batch sleeps since then; who asks for it waits until it has started.
        assert replicas(pool) == (1, 0)
        assert offers.ask("batch") == 200
        assert replicas(pool) == (1, 1)


def _overloaded(
    pool: WatchedPool, prometheus: PrometheusServer, offers: Offers, rate: float
) -> None:
    offers.offer(rate)
    firing = 'ALERTS{alertname="SplitpoolTTFTP99High",alertstate="firing",class="interactive"}'
    for _ in range(5):
        if _within_a_minute(lambda: prometheus.query(firing)):
            break
        # The machine has more to give than while it was measured.
        rate *= 2
        offers.offer(rate)
    eventually(lambda: replicas(pool) == (2, 0), "a worker is added", FIVE_MINUTES)
    why = "ScaledOut, 1 to 2: SplitpoolTTFTP99High fires"
    eventually(lambda: why in _last(pool, "interactive"), "the status says why")
    # An idle batch class may have gone to sleep before it had to give way.
    assert _last(pool, "batch").startswith(("GaveWay", "ScaledIn"))
    calls = 'splitpool_operator_alert_calls_total{result="taken"}'
    eventually(lambda: prometheus.query(f"sum({calls}) > 0"), "Alertmanager has called", 60)


def _last(pool: WatchedPool, name: str) -> str:
    return str(pool.read()["status"]["pools"][name].get("lastScaleReason", ""))


def _within_a_minute(question: Callable[[], Any]) -> bool:
    try:
        return bool(eventually(question, "it is so", 60))
    except TimeoutError:
        return False


def _relieved(pool: WatchedPool, prometheus: PrometheusServer, namespace: str) -> None:
    target = f'splitpool_router_ttft_target_total{{namespace="{namespace}"}}'
    late = target.replace("}", ',within="false"}')
    met = f"sum(rate({late}[30s])) / sum(rate({target}[30s])) < 0.01"
    seconds = PATIENCE_SECONDS + FIVE_MINUTES
    eventually(lambda: prometheus.query(met), "first tokens are in time again", seconds)
    assert replicas(pool)[0] == 2
