"""Autoscaling on a real API server: replicas follow what a Prometheus says, at the law's pace."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cluster.alertmanager_server import call_webhook
from cluster.api import Api, Object, eventually
from cluster.audit import AuditLog
from cluster.control_plane import ControlPlane
from cluster.fake_nodes import FakeNodes
from cluster.operators import operating
from cluster.routers import routing
from cluster.served_pods import served_pods
from cluster.watched_pool import WatchedPool
from fakes.fake_prometheus import FakePrometheus, prometheus
from splitpool_operator.autoscaling.state import Pace

USER = "scaling-operator"
# Short, so that a test sees a whole day's worth of it.
PACE = Pace(window=4, cooldown=2, settle=8, quiet=8)
FLAGS = [
    *("--scale-window-seconds", "4", "--scale-cooldown-seconds", "2"),
    *("--scale-quiet-seconds", "8"),
]
# 4Gi hold four interactive workers, or two and a batch worker.
MANAGED = {
    "spec.autoscaling": {
        "mode": "Managed",
        "interactive": {"minReplicas": 1, "maxReplicas": 4},
        "batch": {"minReplicas": 0, "maxReplicas": 1},
    }
}
LATE: dict[str, Any] = {
    "firing": 1,
    "fired": 1,
    "rate": 2,
    "late": 1,
    "ttft": 2.0,
    "queue": 1.9,
    "service": 0.1,
    "waiting": 3,
    "peak_waiting": 3,
}
BACKLOG = {"backlog": 1000, "peak_backlog": 1000, "throughput": 100, "running": 1}


@pytest.fixture
def signals() -> Iterator[FakePrometheus]:
    with prometheus(PACE) as fake:
        yield fake


@pytest.fixture
def pool(admin: Api, namespace: str, nodes: FakeNodes) -> WatchedPool:
    nodes.add("plain")
    return WatchedPool(admin, namespace)


def replicas(pool: WatchedPool) -> tuple[int, int]:
    """Of interactive and batch."""
    children = pool.children()
    first, second = (
        children["Deployment", f"assistant-{name}"]["spec"]["replicas"]
        for name in ("interactive", "batch")
    )
    return first, second


def tell(signals: FakePrometheus, pool: WatchedPool, name: str, **figures: Any) -> None:
    signals.tell((pool.namespace, "assistant", name), **figures)


def flags(signals: FakePrometheus) -> list[str]:
    return ["--prometheus-url", signals.url, *FLAGS]


def scale_events(pool: WatchedPool) -> set[str]:
    listed = pool.api.listed("v1", "Event", pool.namespace)
    return {each["reason"] for each in listed if each["involvedObject"]["name"] == "assistant"}


def test_interactive_grows_at_the_cost_of_batch_and_gives_back(
    control_plane: ControlPlane, signals: FakePrometheus, pool: WatchedPool
) -> None:
    tell(signals, pool, "interactive")
    tell(signals, pool, "batch", **BACKLOG)
    with operating(control_plane, pool.namespace, USER, flags(signals)):
        pool.declare(MANAGED)
        pool.wait_ready()
        pool.wait("AutoscalingActive", "True", "Steady")
        assert replicas(pool) == (1, 1)

        tell(signals, pool, "interactive", **LATE)
        eventually(lambda: replicas(pool) == (4, 0), "interactive has everything")
        pool.wait("AutoscalingActive", "False", "AtMaximum")
        shown = pool.read()["status"]["pools"]
        # The condition above was written after the step, with the status of it.
        assert shown["interactive"]["lastScaleReason"].startswith("ScaledOut, ")
        assert shown["batch"]["lastScaleReason"].startswith("GaveWay, 1 to 0")
        assert shown["interactive"]["ttftP99"] == "2000ms"

        tell(signals, pool, "interactive")
        tell(signals, pool, "batch", waiting=1)
        eventually(lambda: replicas(pool) == (1, 1), "it gives back, and batch wakes", 90)
        assert {"ScaledOut", "GaveWay", "ScaledIn", "Woken"} <= scale_events(pool)


def test_what_cannot_be_measured_moves_nothing(
    control_plane: ControlPlane, audit: AuditLog, signals: FakePrometheus, pool: WatchedPool
) -> None:
    with operating(control_plane, pool.namespace, USER, flags(signals)):
        pool.declare(MANAGED | {"spec.pools.interactive.replicas": 2})
        pool.wait_ready()
        pool.wait("AutoscalingActive", "False", "NoSignals")
        assert "no series of the class from any router" in pool.message("AutoscalingActive")
        mark = audit.mark()
        senseless: list[tuple[dict[str, Any], str]] = [
            ({"age": 91}, "older than 90 s"),
            ({"rate": "NaN"}, "not a number"),
        ]
        for answer, told in senseless:
            tell(signals, pool, "interactive", **LATE | answer)
            eventually(lambda told=told: told in pool.message("AutoscalingActive"), told)  # type: ignore[misc]
        signals.status = 503
        eventually(lambda: "Status Code 503" in pool.message("AutoscalingActive"), "it is told")
        asked = signals.asked
        eventually(lambda: signals.asked >= asked + 5, "it was asked again and again")
        writes = [each for each in audit.writes(mark, user=USER) if each.resource == "deployments"]
        assert writes == []
        assert replicas(pool) == (2, 1)

        signals.status = 200
        tell(signals, pool, "interactive", **LATE)
        eventually(lambda: replicas(pool)[0] > 2, "it goes on")


def test_a_pool_with_nothing_to_do_is_measured_all_the_time_and_costs_no_write(
    control_plane: ControlPlane, audit: AuditLog, signals: FakePrometheus, pool: WatchedPool
) -> None:
    tell(signals, pool, "interactive")
    tell(signals, pool, "batch")
    with operating(control_plane, pool.namespace, USER, flags(signals)):
        pool.declare(MANAGED)
        pool.wait_ready()
        pool.wait("AutoscalingActive", "True", "Steady")
        eventually(lambda: replicas(pool) == (1, 0), "batch sleeps")
        pool.wait("BatchAvailable", "True", "ScaledToZero")
        pool.wait("AutoscalingActive", "True", "Steady")
        mark, asked = audit.mark(), signals.asked
        eventually(lambda: signals.asked > asked + 200, "it was measured ten times")
        writes = {each.resource for each in audit.writes(mark, user=USER)}
        assert writes <= {"leases"}


def test_a_pool_that_sheds_everything_scales_and_one_whose_prefill_is_slow_does_not(
    control_plane: ControlPlane, signals: FakePrometheus, pool: WatchedPool
) -> None:
    tell(signals, pool, "batch", **BACKLOG)
    tell(signals, pool, "interactive", **LATE | {"queue": 0.1, "service": 1.9})
    with operating(control_plane, pool.namespace, USER, flags(signals)):
        pool.declare(MANAGED)
        pool.wait("AutoscalingActive", "False", "MoreReplicasDoNotHelp")
        assert replicas(pool)[0] == 1

        shed = {"firing": 1, "fired": 1, "rate": 2, "late": 2, "refused": 2}
        tell(signals, pool, "interactive", **shed)
        eventually(lambda: replicas(pool)[0] > 1, "it scales")


def test_external_replicas_are_never_written_and_switching_neither_jumps_nor_fights(
    control_plane: ControlPlane,
    admin: Api,
    audit: AuditLog,
    signals: FakePrometheus,
    namespace: str,
    pool: WatchedPool,
) -> None:
    tell(signals, pool, "interactive", **LATE)
    tell(signals, pool, "batch", **BACKLOG)
    external = {"spec.autoscaling": MANAGED["spec.autoscaling"] | {"mode": "External"}}

    def written(since: int) -> int:
        writes = audit.writes(since, user=USER)
        return sum(each.resource == "deployments" for each in writes)

    def looked() -> None:
        pool.patch({"spec": {"routing": {"forwardHeaders": [f"X-{audit.mark()}"]}}})
        pool.wait_ready()

    with operating(control_plane, pool.namespace, USER, flags(signals)):
        pool.declare(external)
        pool.wait_ready()
        pool.wait("AutoscalingActive", "False", "External")
        mark = audit.mark()
        hpa = admin.create(an_hpa(namespace, "assistant-interactive", 2))
        eventually(lambda: replicas(pool) == (2, 1), "the HPA has raised it", 60)
        looked()
        assert (replicas(pool), written(mark)) == ((2, 1), 0)
        admin.delete(hpa)
        owners = pool.child("Deployment", "assistant-interactive")["metadata"]["managedFields"]
        ours = next(each for each in owners if each["manager"] == "splitpool-operator")
        assert "f:replicas" not in ours["fieldsV1"]["f:spec"]

        tell(signals, pool, "interactive", peak_running=9)
        pool.patch({"spec": {"autoscaling": {"mode": "Managed"}}})
        pool.wait("AutoscalingActive", "True", "Steady")
        assert replicas(pool) == (2, 1)

        pool.patch({"spec": {"autoscaling": {"mode": "External"}}})
        pool.wait("AutoscalingActive", "False", "External")
        tell(signals, pool, "interactive", **LATE)
        mark = audit.mark()
        admin.patch(pool.child("Deployment", "assistant-interactive"), {"spec": {"replicas": 3}})
        looked()
        assert (replicas(pool), written(mark)) == ((3, 1), 0)

        pool.patch({"spec": {"autoscaling": {"mode": "Off"}}})
        eventually(lambda: replicas(pool) == (1, 1), "as declared")


def an_hpa(namespace: str, deployment: str, low: int) -> Object:
    """One that wants so many workers before it has any metric."""
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": deployment}
    resource = {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": deployment, "namespace": namespace},
        "spec": {
            "scaleTargetRef": target,
            "minReplicas": low,
            "maxReplicas": low + 2,
            "metrics": [{"type": "Resource", "resource": resource}],
        },
    }


def test_a_restarted_operator_remembers_its_last_step(
    control_plane: ControlPlane, signals: FakePrometheus, pool: WatchedPool
) -> None:
    tell(signals, pool, "interactive", **LATE)
    tell(signals, pool, "batch", **BACKLOG)
    slow = ["--prometheus-url", signals.url, "--scale-cooldown-seconds", "3600", *FLAGS[:2]]
    slow += FLAGS[4:]
    with operating(control_plane, pool.namespace, USER, flags(signals)):
        pool.declare(MANAGED)
        pool.wait_ready()
        eventually(lambda: replicas(pool)[0] > 1, "it made a step")
    first = replicas(pool)
    with operating(control_plane, pool.namespace, USER, slow):
        pool.wait("AutoscalingActive", "True", "CoolingDown")
        assert replicas(pool) == first


def test_a_deleted_deployment_comes_back_with_the_replicas_that_were_decided(
    control_plane: ControlPlane, admin: Api, signals: FakePrometheus, pool: WatchedPool
) -> None:
    tell(signals, pool, "interactive", **LATE)
    tell(signals, pool, "batch", **BACKLOG)
    with operating(control_plane, pool.namespace, USER, flags(signals)):
        pool.declare(MANAGED)
        pool.wait("AutoscalingActive", "False", "AtMaximum")
        before = pool.child("Deployment", "assistant-interactive")
        assert before["spec"]["replicas"] == 4
        # No signal would raise it again.
        signals.status = 503
        pool.wait("AutoscalingActive", "False", "NoSignals")

        admin.delete(before)

        def again() -> dict[str, Any] | None:
            found = pool.children().get(("Deployment", "assistant-interactive"))
            same = found is None or found["metadata"]["uid"] == before["metadata"]["uid"]
            return None if same else found

        assert eventually(again, "it is made again")["spec"]["replicas"] == 4
        pool.wait_ready()
        assert pool.read()["status"]["pools"]["interactive"]["desiredReplicas"] == 4


def test_alertmanagers_calls_are_hints_and_forged_ones_are_refused(
    control_plane: ControlPlane,
    signals: FakePrometheus,
    pool: WatchedPool,
    tmp_path: Path,
    unused_tcp_port: int,
) -> None:
    token = tmp_path / "token"
    token.write_text("right")
    webhook = ["--webhook-token-file", str(token), "--webhook-port", str(unused_tcp_port)]

    def call(offered: str) -> int:
        return call_webhook(unused_tcp_port, offered, pool.namespace, "assistant")

    tell(signals, pool, "interactive")
    tell(signals, pool, "batch", **BACKLOG)
    with operating(control_plane, pool.namespace, USER, [*flags(signals), *webhook]):
        pool.declare(MANAGED)
        pool.wait_ready()
        pool.wait("AutoscalingActive", "True", "Steady")
        asked = signals.asked
        assert [call("wrong"), call("right"), call("right"), call("right")] == [401, 204, 204, 204]
        eventually(lambda: signals.asked > asked, "it looked")
        # Prometheus knows of no alert, so calls alone move nothing.
        assert replicas(pool) == (1, 1)


async def test_a_request_for_batch_at_zero_wakes_it_and_waits(
    control_plane: ControlPlane, admin: Api, pool: WatchedPool
) -> None:
    """The woken worker is a fake one, since nobody answers behind the pods of fake nodes."""
    asleep = MANAGED | {"spec.pools.batch.replicas": 0, "spec.model.name": "tiny"}

    def until(count: tuple[int, int]) -> None:
        eventually(lambda: len(pool.children()) == 10 and replicas(pool) == count, str(count))

    async with routing(control_plane, pool.namespace) as router:
        port = router.url.rpartition(":")[2]
        named = ["--router", f"127.0.0.1:{port}"]
        with operating(control_plane, pool.namespace, USER, [*named, *FLAGS]):
            made = pool.declare(asleep)
            await asyncio.to_thread(until, (1, 0))
            request = asyncio.create_task(router.ask(X_Splitpool_Class="batch"))
            await asyncio.to_thread(until, (1, 1))
            assert not request.done()
            async with served_pods(admin, pool.namespace) as pods:
                await pods.add(made, "batch", 9)
                assert await request == 200
