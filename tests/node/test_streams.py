"""Under open streams everything may be replaced: none is cut, no token comes twice or is missing.

Streams go through the router's Service to two workers of SmolLM2.
"""

import dataclasses
from collections.abc import Sequence

import pytest

from cluster.api import Object, eventually
from cluster.watched_pool import WatchedPool
from node.cluster import RealCluster
from node.killing import kill
from node.pods import is_ready
from node.release import OPERATOR, ROUTER, pods_of, restart, router_url, service_url
from node.serving import declare, running_pods, wait_ready
from node.streaming import DONE, Asked, Told
from node.streams import by_worker, calling, streaming

STREAMS = 20
TOKENS = 300
# Streams that are not to end while pods start.
MANY_TOKENS = 600
WORKERS = {
    "spec.pools.interactive.replicas": 2,
    "spec.pools.interactive.maxBatch": STREAMS,
    # Streams may take long on a slow machine.
    "spec.pools.interactive.drainSeconds": 600,
    "spec.pools.interactive.queueTimeoutSeconds": 120,
}


@pytest.fixture(scope="module")
def pool(real: RealCluster, release: str, shared_namespace: str) -> WatchedPool:
    """The pool of this module."""
    made = WatchedPool(real.admin, shared_namespace)
    declare(made, WORKERS)
    return made


@pytest.fixture
def workers(pool: WatchedPool) -> list[Object]:
    """Two, ready and alone, whatever the test before has done to them."""
    scale(pool, 2)
    wait_ready(pool)
    eventually(lambda: len(pool.pods()) == 2, "workers that were told to end have ended", 60)
    return running_pods(pool)


@pytest.fixture
def asked(real: RealCluster, workers: Sequence[Object], pool: WatchedPool) -> Asked:
    """What is asked of them."""
    model = pool.read()["spec"]["model"]["name"]
    return Asked(url=service_url(real), model=model, streams=STREAMS, tokens=TOKENS)


def test_a_restart_of_the_operator_cuts_no_stream(real: RealCluster, asked: Asked) -> None:
    with streaming(real, dataclasses.replace(asked, tokens=MANY_TOKENS)) as streams:
        restart(real, OPERATOR)

        assert streams.open == STREAMS
        assert_whole(streams.told(), MANY_TOKENS)


def test_a_rolling_restart_of_the_router_cuts_no_stream(real: RealCluster, asked: Asked) -> None:
    with streaming(real, dataclasses.replace(asked, tokens=MANY_TOKENS)) as streams:
        restart(real, ROUTER)

        assert streams.open == STREAMS
        assert_whole(streams.told(), MANY_TOKENS)


def test_streams_of_a_killed_router_go_on_through_the_other(
    real: RealCluster, asked: Asked
) -> None:
    killed, other = (each for each in pods_of(real, "router") if is_ready(each))
    with streaming(real, dataclasses.replace(asked, resumable=True)) as streams:
        kill(real, killed)
        told = streams.told()

    cut = [each for each in told if each.cuts]
    assert 0 < len(cut) < STREAMS
    assert_whole(told)
    resumed = 'splitpool_router_stream_resumes_total{result="resumed"}'
    assert resumed in real.get(f"{router_url(other)}/metrics")
    eventually(lambda: is_ready(real.admin.reread(killed)), "the killed router is back", 60)


def test_streams_of_a_killed_worker_end_with_an_error_and_others_go_on(
    real: RealCluster, asked: Asked, workers: Sequence[Object]
) -> None:
    with streaming(real, asked) as streams:
        real.admin.delete(workers[0], grace_seconds=0)
        told = streams.told()

    lost, whole = sorted(by_worker(told), key=lambda each: each[0].end == DONE)
    assert {each.end for each in lost} == {"worker_lost"}
    assert all(each.numbers == list(range(len(each.numbers))) for each in lost)
    assert_whole(whole)
    # How soon that is on which machine is measured: python -m node.losing.
    print(f"{max(each.silence for each in lost):.2f} s from the last token to the error")


def test_a_scale_down_cuts_no_stream(real: RealCluster, asked: Asked, pool: WatchedPool) -> None:
    with streaming(real, asked) as streams:
        scale(pool, 1)
        eventually(lambda: len(running_pods(pool)) == 1, "a worker was told to end")

        assert streams.open == STREAMS
        told = streams.told()

    assert len(by_worker(told)) == 2
    assert_whole(told)
    eventually(lambda: len(pool.pods()) == 1, "a worker has ended", 60)


def test_a_rolling_update_cuts_no_stream(
    real: RealCluster, asked: Asked, pool: WatchedPool, workers: Sequence[Object]
) -> None:
    old = {each["metadata"]["uid"] for each in workers}
    with streaming(real, dataclasses.replace(asked, tokens=MANY_TOKENS)) as streams:
        pool.patch({"spec": {"podTemplate": {"env": [{"name": "UPDATED", "value": "1"}]}}})
        eventually(lambda: not old & uids(running_pods(pool)), "all were told to end", 300)

        assert streams.open == STREAMS
        told = streams.told()

    assert len(by_worker(told)) == 2
    assert_whole(told, MANY_TOKENS)
    wait_ready(pool)


def test_with_one_worker_requests_wait_while_it_is_replaced(
    real: RealCluster, asked: Asked, pool: WatchedPool
) -> None:
    scale(pool, 1)
    eventually(lambda: len(pool.pods()) == 1, "a worker has ended", 60)
    wait_ready(pool)
    with calling(real, dataclasses.replace(asked, streams=2, tokens=8)) as callers:
        old = uids(pool.pods())
        pool.patch({"spec": {"podTemplate": {"env": [{"name": "UPDATED", "value": "2"}]}}})
        eventually(lambda: not old & uids(pool.pods()), "the old worker has ended", 120)
        wait_ready(pool)
        calls = callers.stop()

    assert {each.end for each in calls} == {DONE}
    assert len({each.worker for each in calls}) == 2


def scale(pool: WatchedPool, replicas: int) -> None:
    """Declare as many workers."""
    pool.patch({"spec": {"pools": {"interactive": {"replicas": replicas}}}})


def uids(pods: Sequence[Object]) -> set[str]:
    """What tells pods apart."""
    return {each["metadata"]["uid"] for each in pods}


def assert_whole(streams: Sequence[Told], tokens: int = TOKENS) -> None:
    """Every stream came to its end, and every event and token of it came once."""
    for each in streams:
        assert each.end == DONE
        assert each.numbers == list(range(len(each.numbers)))
        assert each.tokens == each.usage == tokens
