"""A listing finds what watches missed, whatever else goes wrong meanwhile."""

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from kubernetes.aio.client import ApiClient, Configuration

from splitpool_operator.cluster.kinds import POOL
from splitpool_operator.cluster.kube import Kube, Unavailable
from splitpool_operator.cluster.scope import Scope
from splitpool_operator.cluster.store import Store
from splitpool_operator.cluster.syncing import sync

VERSIONS = {"a": 10, "b": 20}
SCOPE = Scope(namespaces=("a", "b"))


def a_pool(namespace: str, version: int) -> dict[str, Any]:
    metadata = {"name": "p", "namespace": namespace, "uid": f"u{namespace}"}
    return {"metadata": metadata | {"resourceVersion": str(version)}, "spec": {}}


@contextlib.asynccontextmanager
async def listing(*, failing: int = 0, missing: str = "") -> AsyncIterator[Kube]:
    """An API server with empty namespaces; every so-manyth request fails, one kind is unknown."""
    asked = 0

    async def handle(request: web.Request) -> web.Response:
        nonlocal asked
        asked += 1
        if failing and asked % failing == 0:
            return web.Response(status=503)
        if missing and request.path.endswith(missing):
            return web.Response(status=404)
        version = VERSIONS[request.path.split("/namespaces/")[1].split("/")[0]]
        return web.json_response({"metadata": {"resourceVersion": str(version)}, "items": []})

    app = web.Application()
    app.router.add_get("/{path:.*}", handle)
    server = TestServer(app)
    await server.start_server()
    configuration = Configuration(host=str(server.make_url("")).rstrip("/"))
    async with server, ApiClient(configuration) as api:
        yield Kube(api)


async def test_what_was_made_between_the_listings_of_two_namespaces_stays() -> None:
    store = Store()
    store.put(POOL, a_pool("a", 15))
    store.put(POOL, a_pool("b", 5))
    async with listing() as kube:
        missed = await sync(kube, store, SCOPE)
    assert store.pools() == [("a", "p")]
    assert missed == {("b", "p")}


async def test_all_is_listed_although_every_second_request_fails() -> None:
    store = Store()
    store.put(POOL, a_pool("b", 5))
    async with listing(failing=2) as kube:
        assert await sync(kube, store, SCOPE) == {("b", "p")}


async def test_without_the_pools_kind_there_is_nothing_to_do_yet() -> None:
    async with listing(missing=POOL.plural) as kube:
        with pytest.raises(Unavailable, match="is not installed"):
            await sync(kube, Store(), SCOPE)


async def test_a_kind_that_this_cluster_does_not_know_is_passed_over() -> None:
    async with listing(missing="resourceclaimtemplates") as kube:
        assert await sync(kube, Store(), SCOPE) == set()
