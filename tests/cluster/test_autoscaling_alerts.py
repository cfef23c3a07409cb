"""From late first tokens to more workers and back, with a real Prometheus and Alertmanager.

Router, operator, API server, rules and webhook are real; the workers are fake ones that serve one
request at a time. The windows are short.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from chart.alerting import rules_text
from cluster.alertmanager_server import alerting, call_webhook
from cluster.api import Api, Object, eventually
from cluster.control_plane import ControlPlane
from cluster.fake_nodes import FakeNodes
from cluster.monitoring import MonitoringPrograms
from cluster.operators import operating
from cluster.processes import free_ports
from cluster.prometheus_server import PrometheusServer, Target, scraping
from cluster.routers import ClusterRouter, routing
from cluster.served_pods import ServedPods, served_pods
from cluster.watched_pool import WatchedPool
from fakes.fake_worker import FakeWorker
from fakes.router_rig import CHAT, chat
from fakes.scripted_answers import Script
from unit.pool_files import CPU, changed

USER = "alerted-operator"
KEY = "between Alertmanager and the operator"
FLAGS = [
    *("--scale-window-seconds", "10", "--scale-cooldown-seconds", "5"),
    *("--scale-quiet-seconds", "20"),
]
RULES = rules_text(
    *("--set", "monitoring.rules.window=10s,monitoring.rules.pendingFor=2s"),
    *("--set", "monitoring.rules.keepFiringFor=2s"),
)
# A worker holds one request of 90 tokens and needs a quarter of a second for it.
KV_TOKENS, TOKENS, SERVICE_SECONDS = 100, 80, 0.25
CAPACITY = 1 / SERVICE_SECONDS
POOL = {
    "spec.model.name": "tiny",
    "spec.pools.interactive.ttftP99Ms": 1000,
    "spec.pools.interactive.maxQueueTokens": 2000,
    "spec.pools.interactive.maxBatch": 1,
    "spec.autoscaling": {
        "mode": "Managed",
        "interactive": {"minReplicas": 1, "maxReplicas": 3},
        "batch": {"minReplicas": 0, "maxReplicas": 1},
    },
}


@dataclass
class Ports:
    """Where everything listens."""

    prometheus: int
    alertmanager: int
    webhook: int
    health: int


@dataclass
class Load:
    """Requests that come at their times, whatever becomes of those before."""

    router: ClusterRouter
    model: str = "tiny"
    rate: float = 0.0
    running: set[asyncio.Task[None]] = field(default_factory=set)

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            if not self.rate:
                await asyncio.sleep(0.1)
                continue
            task = asyncio.create_task(self._ask())
            self.running.add(task)
            task.add_done_callback(self.running.discard)
            await asyncio.sleep(1 / self.rate)

    async def _ask(self) -> None:
        body = chat(stream=True, max_tokens=TOKENS, model=self.model)
        with contextlib.suppress(OSError):
            async with self.router.http.post(self.router.url + CHAT, json=body) as answer:
                await answer.read()

    @contextlib.asynccontextmanager
    async def offered(self) -> AsyncIterator[None]:
        """Runs until the end of the block."""
        task = asyncio.create_task(self.run())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, *self.running, return_exceptions=True)


async def soon(question: Callable[[], bool], what: str, seconds: float = 90.0) -> None:
    await asyncio.to_thread(eventually, question, what, seconds)


def replicas(pool: WatchedPool, name: str = "assistant-interactive") -> int:
    return int(pool.child("Deployment", name)["spec"]["replicas"])


def last(pool: WatchedPool) -> str:
    """Why interactive was scaled last."""
    return str(pool.read()["status"]["pools"]["interactive"].get("lastScaleReason", ""))


@contextlib.asynccontextmanager
async def workers(pods: ServedPods, pool: WatchedPool, made: Object) -> AsyncIterator[None]:
    """As many interactive workers that answer as the Deployment has replicas."""
    added: list[FakeWorker] = []

    async def follow() -> None:
        while True:
            wanted = await asyncio.to_thread(replicas, pool)
            while len(added) < wanted:
                worker = await pods.add(made, "interactive", 10 + len(added))
                worker.kv_tokens = KV_TOKENS
                worker.script = Script(delays={"prefill": SERVICE_SECONDS}, tokens=("a",))
                added.append(worker)
            while len(added) > wanted:
                pods.report(added.pop(), ready=False)
            await asyncio.sleep(0.2)

    task = asyncio.create_task(follow())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.fixture
def token(tmp_path: Path) -> Path:
    file = tmp_path / "token"
    file.write_text(KEY)
    return file


@pytest.fixture
def ports() -> Ports:
    return Ports(*free_ports(4))


@contextlib.contextmanager
def observed(
    programs: MonitoringPrograms, folder: Path, router: ClusterRouter, ports: Ports
) -> Iterator[PrometheusServer]:
    targets = [
        Target("router", router.url.removeprefix("http://")),
        Target("operator", f"127.0.0.1:{ports.health}"),
    ]
    manager = f"127.0.0.1:{ports.alertmanager}"
    with scraping(
        programs, folder, targets, rules=RULES, alertmanager=manager, port=ports.prometheus
    ) as server:
        yield server


def value(server: PrometheusServer, expression: str) -> float:
    return sum(each.value for each in server.query(expression))


async def test_late_first_tokens_add_workers_until_they_are_in_time_and_quiet_takes_them_away(
    control_plane: ControlPlane,
    monitoring: MonitoringPrograms,
    admin: Api,
    nodes: FakeNodes,
    namespace: str,
    tmp_path: Path,
    token: Path,
    ports: Ports,
) -> None:
    nodes.add("plain")
    pool = WatchedPool(admin, namespace)

    def manager() -> contextlib.AbstractContextManager[None]:
        webhook = f"http://127.0.0.1:{ports.webhook}/alerts"
        return alerting(monitoring, tmp_path, port=ports.alertmanager, webhook=webhook, token=token)

    async with routing(control_plane, namespace) as router, served_pods(admin, namespace) as pods:
        load = Load(router)
        with operating(control_plane, namespace, USER, arguments(ports, token)):
            made = await asyncio.to_thread(pool.declare, POOL)
            admin.create(another(namespace))
            await soon(lambda: len(pool.children()) == 10, "it is made")
            async with load.offered(), workers(pods, pool, made):
                await router.until_ready(1)
                with manager(), observed(monitoring, tmp_path, router, ports) as prometheus:
                    await _overloaded(pool, load, prometheus)
                    await _relieved(pool, load, prometheus)
                await _blind(pool)
                with manager(), observed(monitoring, tmp_path, router, ports):
                    load.rate = 0.0
                    await soon(lambda: replicas(pool) == 1, "workers are taken away", 180)
    assert not scaled(admin, namespace, "other")


async def test_without_alertmanager_a_pool_that_sheds_everything_grows_and_a_fast_one_stays(
    control_plane: ControlPlane,
    monitoring: MonitoringPrograms,
    admin: Api,
    nodes: FakeNodes,
    namespace: str,
    tmp_path: Path,
    token: Path,
    ports: Ports,
) -> None:
    nodes.add("plain")
    pool = WatchedPool(admin, namespace)

    def call(offered: str, name: str) -> int:
        return call_webhook(ports.webhook, offered, namespace, name)

    async with routing(control_plane, namespace) as router, served_pods(admin, namespace) as pods:
        loads = Load(router), Load(router, model="other", rate=CAPACITY / 2)
        with (
            operating(control_plane, namespace, USER, arguments(ports, token)),
            observed(monitoring, tmp_path, router, ports),
        ):
            # Nothing may wait.
            made = await asyncio.to_thread(
                pool.declare, POOL | {"spec.pools.interactive.maxQueueTokens": 1}
            )
            other = admin.create(another(namespace))
            await soon(lambda: len(pool.children()) == 10, "it is made")
            stuck, fast = [await pods.add(each, "interactive", 9) for each in (made, other)]
            stuck.kv_tokens, stuck.script = KV_TOKENS, Script(never_answer=True)
            await router.until_ready(1)
            await router.until_ready(1, "other")
            async with loads[0].offered(), loads[1].offered():
                told = [call("forged", "other"), *(call(KEY, "other") for _ in "ab")]
                assert told == [401, 204, 204]
                loads[0].rate = CAPACITY
                await soon(lambda: replicas(pool) > 1, "it grows", 180)
                await soon(lambda: "requests/s are turned away" in last(pool), "it says why")
                assert call(KEY, "other") == 204
    assert fast.completions()
    assert not scaled(admin, namespace, "other")


def arguments(ports: Ports, token: Path) -> list[str]:
    """Of the operator."""
    return [
        *("--prometheus-url", f"http://127.0.0.1:{ports.prometheus}"),
        *("--webhook-token-file", str(token), "--webhook-port", str(ports.webhook)),
        *("--health-port", str(ports.health), *FLAGS),
    ]


def another(namespace: str) -> Object:
    """A pool of the same kind with a model of its own."""
    place = {"metadata.name": "other", "metadata.namespace": namespace}
    return changed(CPU, POOL | place | {"spec.model.name": "other"})


def scaled(admin: Api, namespace: str, name: str) -> bool:
    """Whether replicas of its interactive class were ever moved."""
    pool = admin.get("splitpool.dev/v1alpha1", "InferencePool", name, namespace)
    return "lastScaleTime" in pool["status"]["pools"]["interactive"]


async def _overloaded(pool: WatchedPool, load: Load, prometheus: PrometheusServer) -> None:
    """One and a half times what one worker can do: the alert fires, and the operator is called."""
    await soon(
        lambda: pool.condition("AutoscalingActive") == ("True", "Steady"), "signals are read"
    )
    assert replicas(pool) == 1
    load.rate = 1.5 * CAPACITY
    firing = 'ALERTS{alertname="SplitpoolTTFTP99High",alertstate="firing",pool="assistant"}'
    await soon(lambda: value(prometheus, firing) == 1, "the alert fires")
    await soon(lambda: replicas(pool) > 1, "workers are added")
    await soon(lambda: "SplitpoolTTFTP99High fires" in last(pool), "the status says why")
    taken = 'splitpool_operator_alert_calls_total{result="taken"}'
    await soon(lambda: value(prometheus, taken) > 0, "Alertmanager has called")


async def _relieved(pool: WatchedPool, load: Load, prometheus: PrometheusServer) -> None:
    """The same load, and first tokens are in time again."""
    target = 'splitpool_router_ttft_target_total{pool="assistant"}'
    late = target.replace("}", ',within="false"}')
    in_time = f"sum(rate({late}[10s])) / sum(rate({target}[10s])) < 0.01"
    await soon(lambda: bool(prometheus.query(in_time)), "the target is met", 300)
    assert load.rate == 1.5 * CAPACITY
    assert replicas(pool) > 1


async def _blind(pool: WatchedPool) -> None:
    """Prometheus and Alertmanager are away: everything stays."""
    before = replicas(pool)
    await soon(lambda: pool.condition("AutoscalingActive") == ("False", "NoSignals"), "it is blind")
    # On its way out Prometheus still answers, with 503.
    await soon(lambda: "no connection" in pool.message("AutoscalingActive"), "and says why")
    assert replicas(pool) == before
