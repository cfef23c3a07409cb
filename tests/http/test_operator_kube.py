"""What an API server, or something before it, answers becomes what the caller can do about it."""

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from kubernetes.aio.client import ApiClient, Configuration

from splitpool_operator.cluster.kinds import CONFIG_MAP
from splitpool_operator.cluster.kube import Closing, Gone, Kube, Refused, Unavailable

MANIFEST: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "c", "namespace": "ns"},
}
TERMINATING = {"causes": [{"reason": "NamespaceTerminating", "field": "metadata.namespace"}]}


@contextlib.asynccontextmanager
async def answering(response: web.Response | None) -> AsyncIterator[Kube]:
    """An API server that always says the same, or hangs up."""

    async def handle(request: web.Request) -> web.Response:
        if response is None:
            assert request.transport is not None
            request.transport.abort()
        return response or web.Response()

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handle)
    async with TestServer(app) as server:
        configuration = Configuration(host=str(server.make_url("")))
        async with ApiClient(configuration) as api:
            yield Kube(api)


def status(code: int, text: str = "no", **more: Any) -> web.Response:
    """A refusal as the API server words it."""
    headers = more.pop("headers", {})
    body = {"kind": "Status", "code": code, "message": text, **more}
    return web.json_response(body, status=code, headers=headers)


@pytest.mark.parametrize(
    ("response", "expected"),
    [
        (status(400), Refused),
        (status(403, "forbidden: no right"), Refused),
        (status(403, "being terminated", details=TERMINATING), Closing),
        (status(404), Gone),
        (status(404, 'namespaces "ns" not found', details={"kind": "namespaces"}), Closing),
        (status(409), Unavailable),
        (status(422), Refused),
        (status(429), Unavailable),
        (status(500), Unavailable),
        (web.Response(status=502, text="<html>bad gateway</html>"), Unavailable),
        (web.json_response(["no status"], status=503), Unavailable),
        (None, Unavailable),
    ],
    ids=lambda each: getattr(each, "__name__", getattr(each, "status", "hung up")),
)
async def test_answers_are_sorted_by_what_can_be_done(
    response: web.Response | None, expected: type[Exception]
) -> None:
    async with answering(response) as kube:
        with pytest.raises(expected):
            await kube.apply(MANIFEST)


@pytest.mark.parametrize(("said", "after"), [("7", 7.0), ("999999", 300.0), ("soon", 0.0)])
async def test_the_pause_that_is_asked_for_is_passed_on(said: str, after: float) -> None:
    async with answering(status(429, headers={"Retry-After": said})) as kube:
        with pytest.raises(Unavailable) as refused:
            await kube.apply(MANIFEST)
    assert refused.value.after == after


async def test_what_is_not_there_is_none() -> None:
    async with answering(status(404)) as kube:
        assert await kube.get(CONFIG_MAP, "ns", "c") is None


async def test_what_is_not_there_needs_no_deleting() -> None:
    async with answering(status(404)) as kube:
        await kube.delete(CONFIG_MAP, {"metadata": {"name": "c", "namespace": "ns", "uid": "u"}})
