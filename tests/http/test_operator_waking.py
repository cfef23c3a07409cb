"""Sleeping classes wake for requests that wait in a router; senseless answers change nothing."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from splitpool_operator.cluster import kinds
from splitpool_operator.cluster.routers import Routers
from splitpool_operator.cluster.store import Key, Store
from splitpool_operator.cluster.waking import Waking
from unit.pool_files import CPU, changed

KEY = ("ns", "assistant")


def shown(waiting: Any, name: str = "assistant") -> dict[str, Any]:
    classes = {"batch": {"waiting": waiting}, "interactive": {"waiting": 0}}
    return {"namespace": "ns", "name": name, "generation": 1, "classes": classes}


@dataclass
class Router:
    """What it says of its pools, and how often it was asked."""

    body: Any = None
    asked: int = 0
    woken: list[Key] = field(default_factory=list)

    async def pools(self, request: web.Request) -> web.Response:
        self.asked += 1
        return web.json_response(self.body)


@pytest.fixture
async def router() -> Router:
    return Router(body={"pools": [shown(2), shown(0, "other")]})


@pytest.fixture
async def routers(router: Router) -> AsyncIterator[Routers]:
    app = web.Application()
    app.router.add_get("/internal/pools", router.pools)
    async with TestServer(app) as served, aiohttp.ClientSession() as http:
        assert served.port is not None
        yield Routers(http, ("127.0.0.1", served.port))


def store(mode: str = "Managed", batch: int = 0) -> Store:
    of = Store()
    facts = {
        "metadata.namespace": "ns",
        "metadata.uid": "u",
        "metadata.resourceVersion": "1",
        "spec.autoscaling": {"mode": mode},
    }
    of.put(kinds.POOL, changed(CPU, facts))
    for role, replicas in (("interactive", 1), ("batch", batch)):
        labels = {"splitpool.dev/pool": "assistant", "splitpool.dev/class": role}
        metadata = {"namespace": "ns", "name": f"assistant-{role}", "uid": role, "labels": labels}
        live = {"metadata": metadata | {"resourceVersion": "1"}, "spec": {"replicas": replicas}}
        of.put(kinds.DEPLOYMENT, live)
    return of


async def test_a_class_at_zero_with_waiting_requests_has_its_pool_looked_at(
    router: Router, routers: Routers
) -> None:
    waking = Waking(store(), routers, router.woken.append)
    await waking.look()
    assert router.woken == [KEY]
    assert waking.waiting(KEY) == {"batch": 2}
    assert waking.waiting(("ns", "other")) == {}
    router.body = {"pools": [shown(0)]}
    await waking.look()
    assert (router.woken, waking.waiting(KEY)) == ([KEY], {})


@pytest.mark.parametrize("of", [store(batch=1), store("External"), store("Off")])
async def test_no_router_is_asked_while_nothing_sleeps_that_may_wake(
    router: Router, routers: Routers, of: Store
) -> None:
    await Waking(of, routers, router.woken.append).look()
    assert (router.asked, router.woken) == (0, [])


@pytest.mark.parametrize("body", [None, [], {}, {"pools": 1}, {"pools": [1, {}, shown("x")]}])
async def test_senseless_answers_wake_nobody(router: Router, routers: Routers, body: Any) -> None:
    router.body = body
    await Waking(store(), routers, router.woken.append).look()
    assert router.woken == []


async def test_without_routers_and_without_a_known_one_nobody_wakes(unused_tcp_port: int) -> None:
    woken: list[Key] = []
    await Waking(store(), None, woken.append).look()
    async with aiohttp.ClientSession() as http:
        gone = Routers(http, ("127.0.0.1", unused_tcp_port))
        await Waking(store(), gone, woken.append).look()
        nowhere = Routers(http, ("routers.invalid", 8080))
        await Waking(store(), nowhere, woken.append).look()
    assert woken == []
