"""The router on a real API server: it finds pools and workers, and no fault makes it forget."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from cluster.api import Api
from cluster.control_plane import ControlPlane
from cluster.fault_proxy import Fault, faulty
from cluster.routers import USER, eventually, routing, with_token
from cluster.served_pods import ServedPods, read, served_pods
from fakes.router_rig import CHAT, chat, events
from fakes.scripted_answers import Script
from splitpool_operator.cluster.probing import HttpProbe
from splitpool_operator.cluster.routers import Routers
from splitpool_operator.declaration.pool import CLASSES

RESUMABLE = {"X-Splitpool-Resumable": "true"}


@pytest.fixture
async def pods(admin: Api, namespace: str) -> AsyncIterator[ServedPods]:
    async with served_pods(admin, namespace) as served:
        yield served


async def test_pools_and_workers_of_a_namespace_are_found(
    control_plane: ControlPlane, pods: ServedPods
) -> None:
    pool = pods.declare()
    async with routing(control_plane, pods.namespace) as router:
        await eventually(router.ready, 0)
        interactive, batch = await pods.add(pool), await pods.add(pool, "batch")
        await router.until_ready(1)
        await eventually(lambda: router.ready(cls="batch"), 1)
        assert await router.ask(X_Splitpool_Class="interactive") == 200
        assert await router.ask(X_Splitpool_Class="batch") == 200
        assert (interactive.executions, batch.executions) == (1, 1)
        shown = (await router.get("/internal/pools"))["pools"]
        assert [each["generation"] for each in shown] == [pool["metadata"]["generation"]]
        assert (await router.get("/ready"))["discoveryAgeSeconds"] < 90


async def test_a_service_account_with_its_token_suffices(
    control_plane: ControlPlane, admin: Api, pods: ServedPods, tmp_path: Path
) -> None:
    pool = pods.declare()
    await pods.add(pool)
    asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    account = f"/api/v1/namespaces/{pods.namespace}/serviceaccounts/default"
    made = admin.request("POST", f"{account}/token", asked)
    (tmp_path / "token").write_text(made["status"]["token"])
    kubeconfig = with_token(control_plane.server, admin.authority, tmp_path / "token")
    user = f"system:serviceaccount:{pods.namespace}:default"
    async with routing(control_plane, pods.namespace, user=user, kubeconfig=kubeconfig) as router:
        await router.until_ready(1)


async def test_a_request_that_comes_before_the_worker_is_shown_and_waits_for_it(
    control_plane: ControlPlane, admin: Api, pods: ServedPods
) -> None:
    pool = pods.declare()
    admin.patch(pool, {"spec": {"pools": {"interactive": {"queueTimeoutSeconds": 60}}}})
    async with routing(control_plane, pods.namespace) as router:
        await eventually(router.ready, 0)
        asked = asyncio.create_task(router.ask())

        async def waiting() -> int:
            each = (await router.get("/internal/pools"))["pools"][0]
            return int(each["classes"]["interactive"]["waiting"])

        await eventually(waiting, 1)
        await pods.add(pool)
        assert await asked == 200


async def test_the_operators_probe_learns_that_a_pool_serves(
    control_plane: ControlPlane, admin: Api, pods: ServedPods
) -> None:
    pool = pods.declare()
    await pods.add(pool)
    await pods.add(pool, "batch")
    async with routing(control_plane, pods.namespace) as router:
        host, port = "127.0.0.1", int(router.url.rpartition(":")[2])
        await router.until_ready(1)
        await eventually(lambda: router.ready(cls="batch"), 1)
        async with aiohttp.ClientSession() as http:
            routers = Routers(http, (host, port))
            assert await HttpProbe(http, routers).serving(read(pool), [], CLASSES) is None
            pool = admin.patch(pool, {"spec": {"pools": {"batch": {"maxBatch": 65}}}})

            async def serving() -> object:
                return await HttpProbe(http, routers).serving(read(pool), [], CLASSES)

            await eventually(serving, None)


async def test_a_leaving_pod_gets_nothing_new_and_ends_what_it_has(
    control_plane: ControlPlane, pods: ServedPods
) -> None:
    pool = pods.declare()
    leaving = await pods.add(pool)
    leaving.script = Script(hold_after_events=2)
    async with routing(control_plane, pods.namespace) as router:
        await router.until_ready(1)
        asked, post = chat(stream=True), router.http.post
        async with post(router.url + CHAT, json=asked) as stream:
            async with post(router.url + CHAT, json=asked, headers=RESUMABLE) as cut:
                for _ in range(2):
                    await cut.content.readuntil(b"\n\n")
            stream_id = cut.headers["X-Splitpool-Stream-Id"]
            pods.order_to_end(leaving)
            assert leaving.ready
            await router.until_ready(0)

            staying = await pods.add(pool, number=1)
            await router.until_ready(1)
            for _ in range(20):
                assert await router.ask() == 200
            assert (leaving.executions, staying.executions) == (2, 20)

            pods.report(leaving, ready=False)
            leaving.release.set()
            assert (await stream.read()).endswith(b"data: [DONE]\n\n")
            path = f"{router.url}/v1/streams/{stream_id}?starting_after=1"
            async with router.http.get(path) as rest:
                assert [event.id for event in events(await rest.read())] == [2, 3, 4, 5, 6]
        pods.end(leaving)

        async def shown() -> int:
            each = (await router.get("/internal/pools"))["pools"][0]
            return int(each["classes"]["interactive"]["workers"])

        await eventually(shown, 1)


async def test_a_pod_that_two_services_name_is_one_worker(
    control_plane: ControlPlane, admin: Api, pods: ServedPods
) -> None:
    pool = pods.declare()
    await pods.add(pool)
    (made,) = (
        each
        for each in admin.listed("v1", "Service", pods.namespace)
        if each["metadata"]["name"] == "assistant-interactive"
    )
    metadata = {key: made["metadata"][key] for key in ("labels", "namespace")}
    other = {"metadata": metadata | {"name": "other"}, "spec": {"clusterIP": "None"}}
    other["spec"] |= {key: made["spec"][key] for key in ("selector", "ports")}
    admin.create({"apiVersion": "v1", "kind": "Service", **other})

    async def named() -> int:
        found = admin.listed("discovery.k8s.io/v1", "EndpointSlice", pods.namespace)
        return sum(len(each["endpoints"] or ()) for each in found)

    await eventually(named, 2)
    async with routing(control_plane, pods.namespace) as router:
        await router.until_ready(1)
        assert await router.ask() == 200


async def test_a_pool_that_is_deleted_serves_no_more_and_its_successor_does(
    control_plane: ControlPlane, admin: Api, pods: ServedPods
) -> None:
    pool = pods.declare()
    await pods.add(pool)
    async with routing(control_plane, pods.namespace) as router:
        await router.until_ready(1)
        admin.delete(pool)
        await eventually(router.ask, 404)
        renamed = pods.declare("successor")
        await pods.add(renamed)
        await router.until_ready(1, "successor")
        assert await router.ask() == 200


async def test_of_two_pools_with_one_model_the_older_serves_while_it_is_there(
    control_plane: ControlPlane, admin: Api, pods: ServedPods
) -> None:
    older = pods.declare("z-older")
    first = await pods.add(older)
    await asyncio.sleep(1.1)  # creation times have whole seconds
    younger = pods.declare("a-younger")
    second = await pods.add(younger)
    async with routing(control_plane, pods.namespace) as router:
        await router.until_ready(1, "a-younger")
        await router.until_ready(1, "z-older")
        assert await router.ask() == 200
        assert (first.executions, second.executions) == (1, 0)
        admin.delete(older)
        await eventually(lambda: router.ready("z-older"), -1)
        assert await router.ask() == 200
        assert second.executions == 1


async def test_pools_of_other_namespaces_are_not_looked_at(
    control_plane: ControlPlane, pods: ServedPods
) -> None:
    await pods.add(pods.declare())
    async with routing(control_plane, "default") as router:
        await eventually(lambda: router.status("/ready"), 200)
        assert (await router.get("/internal/pools"))["pools"] == []
        assert await router.ask() == 404


async def test_an_api_server_that_is_away_takes_no_worker_away(
    control_plane: ControlPlane, pods: ServedPods
) -> None:
    pool = pods.declare()
    await pods.add(pool)
    async with routing(control_plane, pods.namespace, restarts=True) as router:
        await router.until_ready(1)
        control_plane.api_server.kill()
        try:
            before = (await router.get("/ready"))["discoveryAgeSeconds"]
            for _ in range(20):
                assert await router.ask() == 200

            async def aged() -> bool:
                shown = await router.get("/ready")
                assert shown["ready"]
                return bool(shown["discoveryAgeSeconds"] > before + 1)

            await eventually(aged, True)
        finally:
            control_plane.start_api_server()
        await pods.add(pool, number=1)
        await router.until_ready(2)


async def test_what_happened_behind_an_expired_watch_is_found_by_a_new_listing(
    control_plane: ControlPlane, admin: Api, pods: ServedPods, tmp_path: Path
) -> None:
    pool, other = pods.declare(), pods.declare("other", "small")
    gone = await pods.add(pool)
    with faulty(control_plane, USER) as proxy:
        kubeconfig = proxy.kubeconfig(tmp_path / "kubeconfig")
        async with routing(control_plane, pods.namespace, kubeconfig=kubeconfig) as router:
            await router.until_ready(1)
            proxy.befall(Fault(status=503))
            proxy.cut_watches()
            pods.end(gone)
            admin.delete(other)
            new = await pods.add(pool, number=1)
            proxy.forget_history(10**9)
            proxy.heal()
            await eventually(lambda: router.ask(model="small"), 404)

            async def reached() -> bool:
                return await router.ask() == 200 and new.executions > 0

            await eventually(reached, True)


async def test_a_slow_api_server_delays_news_and_nothing_else(
    control_plane: ControlPlane, pods: ServedPods, tmp_path: Path
) -> None:
    pool = pods.declare()
    await pods.add(pool)
    with faulty(control_plane, USER) as proxy:
        proxy.befall(Fault(delay=2.0))
        kubeconfig = proxy.kubeconfig(tmp_path / "kubeconfig")
        async with routing(control_plane, pods.namespace, kubeconfig=kubeconfig) as router:
            await router.until_ready(1)
            await pods.add(pool, number=1)
            await router.until_ready(2)
