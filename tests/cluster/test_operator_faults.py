"""What an API server does on a bad day ends in convergence."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.api import Api, eventually
from cluster.audit import AuditLog
from cluster.control_plane import ControlPlane
from cluster.fake_nodes import FakeNodes
from cluster.fault_proxy import WRITES, Fault, FaultProxy, faulty
from cluster.operators import leader, operating, operator, permit
from cluster.processes import Program
from cluster.watched_pool import WatchedPool

USER = "tried-operator"
SERVICE = "assistant-batch"
PATIENCE = 120.0


@pytest.fixture
def proxy(control_plane: ControlPlane) -> Iterator[FaultProxy]:
    with faulty(control_plane, USER) as made:
        yield made


@pytest.fixture
def program(
    control_plane: ControlPlane, namespace: str, proxy: FaultProxy, tmp_path: Path
) -> Iterator[Program]:
    """An operator that sees the API server through the proxy."""
    file = proxy.kubeconfig(tmp_path / "kubeconfig")
    with operating(control_plane, namespace, USER, kubeconfig=file) as running:
        yield running


@pytest.fixture
def pool(admin: Api, nodes: FakeNodes, namespace: str, program: Program) -> WatchedPool:
    """Of an operator that leads already."""
    nodes.add("plain")
    eventually(lambda: leader(admin, namespace), "the operator leads")
    return WatchedPool(admin, namespace)


@pytest.mark.parametrize(
    "fault",
    [
        Fault(status=409, methods=WRITES, every=3),
        Fault(status=429, retry_after=1, every=3),
        Fault(status=429, every=3),
        Fault(status=500, every=3),
        Fault(status=503, retry_after=1, methods=WRITES, every=2),
        Fault(answer_lost=True, methods=WRITES, every=3),
    ],
    ids=lambda fault: f"{fault.status or 'lost'}-{fault.retry_after}",
)
def test_requests_that_fail_are_made_again(
    proxy: FaultProxy, program: Program, pool: WatchedPool, fault: Fault
) -> None:
    proxy.befall(fault)
    pool.declare()
    pool.wait("Ready", "True", "Serving", seconds=PATIENCE)

    pool.patch({"spec": {"pools": {"batch": {"maxBatch": 65}}}})
    pool.wait("Ready", "True", "Serving", seconds=PATIENCE)

    assert proxy.hits > 0
    assert program.running
    assert len(pool.children()) == 10


def test_a_slow_api_server_makes_it_late_and_nothing_else(
    proxy: FaultProxy, program: Program, pool: WatchedPool
) -> None:
    proxy.befall(Fault(delay=2.0, paths=""))
    pool.declare()
    pool.wait("Ready", "True", "Serving", seconds=PATIENCE)
    assert program.running


def test_an_api_server_that_refuses_everything_for_a_while_is_waited_for(
    proxy: FaultProxy, program: Program, pool: WatchedPool
) -> None:
    proxy.befall(Fault(status=429, retry_after=1))
    pool.declare()
    eventually(lambda: proxy.hits > 3, "it was refused")
    proxy.heal()
    pool.wait("Ready", "True", "Serving", seconds=PATIENCE)
    assert program.running


def test_watches_that_are_cut_go_on(
    proxy: FaultProxy, program: Program, pool: WatchedPool, admin: Api
) -> None:
    pool.declare()
    pool.wait_ready()
    for _ in range(3):
        proxy.cut_watches()
        admin.delete(pool.child("Service", SERVICE))
        eventually(lambda: ("Service", SERVICE) in pool.children(), "it is repaired")
    assert program.running


def test_what_happened_while_watches_were_away_and_history_was_lost_is_noticed(
    proxy: FaultProxy, program: Program, pool: WatchedPool, admin: Api
) -> None:
    pool.declare()
    pool.wait_ready()
    proxy.befall(Fault(status=503, methods=frozenset({"GET"})))
    proxy.cut_watches()
    eventually(lambda: proxy.hits > 0, "a watch was refused")
    admin.delete(pool.child("Service", SERVICE))
    changed = pool.patch({"spec": {"pools": {"batch": {"maxBatch": 65}}}})

    proxy.forget_history(int(changed["metadata"]["resourceVersion"]))
    proxy.heal()

    eventually(lambda: ("Service", SERVICE) in pool.children(), "it is repaired", 60)
    pool.wait_ready()
    assert program.running


def test_an_api_server_that_restarts_in_the_midst_of_a_reconcile_finds_it_finished(
    control_plane: ControlPlane, admin: Api, audit: AuditLog, nodes: FakeNodes, namespace: str
) -> None:
    nodes.add("plain")
    pool = WatchedPool(admin, namespace)
    permit(admin, namespace, USER)
    program = operator(control_plane, namespace, USER)
    program.start()
    try:
        eventually(lambda: leader(admin, namespace), "the operator leads")
        for writes in (2, 7):
            mark = audit.mark()
            pool.declare({"spec.pools.batch.maxBatch": 64 + writes})
            eventually(
                lambda mark=mark, writes=writes: (  # type: ignore[misc]
                    _kept_running(program) and len(audit.writes(mark, user=USER)) >= writes
                ),
                "it has begun",
            )
            control_plane.api_server.kill()
            control_plane.start_api_server()
        eventually(
            lambda: _kept_running(program) and pool.shows("Ready", "True", "Serving"),
            "it serves",
            PATIENCE,
        )
        assert len(pool.children()) == 10
    finally:
        program.stop()


def _kept_running(program: Program) -> bool:
    """What runs an operator starts it again, should it have lost its lease meanwhile."""
    if not program.running:
        program.start()
    return program.running
