"""An event source that gives up ends the operator: it never goes on without eyes."""

import asyncio

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from kubernetes.aio.client import Configuration

from splitpool_operator.cluster import handlers
from splitpool_operator.cluster.handlers import WatchesEnded
from splitpool_operator.cluster.intake import Intake
from splitpool_operator.cluster.scope import Scope
from splitpool_operator.cluster.store import Store


def an_intake() -> Intake:
    return Intake(store=Store(), enqueue=lambda key: None, relisted=lambda: None)


async def test_a_kind_that_is_no_longer_served_ends_the_watching() -> None:
    async def nothing(_: web.Request) -> web.Response:
        return web.Response(status=404, text="404 page not found")

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", nothing)
    async with TestServer(app) as server:
        connection = Configuration(host=str(server.make_url("")).rstrip("/"))
        with pytest.raises(WatchesEnded):
            async with asyncio.timeout(60):
                await handlers.watch(an_intake(), Scope(), connection, stop=asyncio.Event())
