"""Two routers over the same workers: what one has begun, the other finds again."""

import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from fakes.fake_worker import FakeWorker, started
from fakes.router_process import RouterProcess, start
from fakes.router_rig import CHAT, chat, events, pool_object, write_endpoints
from fakes.scripted_answers import Script

KEY = "5a" * 32
RESUMABLE = {"X-Splitpool-Resumable": "true", "Authorization": "Bearer me"}
NAMED = {**RESUMABLE, "X-Request-Id": "mine-1"}


@asynccontextmanager
async def two_routers(
    path: Path, *workers: FakeWorker, keys: tuple[str, str] = (KEY, KEY)
) -> AsyncIterator[tuple[RouterProcess, RouterProcess]]:
    """Both know the workers; killed at the end."""
    endpoints = path / "endpoints.json"
    async with started(*workers):
        write_endpoints(endpoints, [pool_object()], workers)
        routers = []
        try:
            for key in keys:
                env = {"SPLITPOOL_CALLER_KEY": key}
                routers.append(await start("--port", "0", "--endpoints", str(endpoints), **env))
            for router in routers:
                await router.listens()
                await router.line("serving=True")
            yield routers[0], routers[1]
        finally:
            for router in routers:
                await router.kill()


@asynccontextmanager
async def cut(
    client: aiohttp.ClientSession, router: RouterProcess, headers: dict[str, str]
) -> AsyncIterator[str]:
    """A stream of which two events were read before its router was killed; its id."""
    asked = chat(stream=True)
    async with client.post(router.url + CHAT, json=asked, headers=headers) as response:
        for _ in range(2):
            await response.content.readuntil(b"\n\n")
        router.process.send_signal(signal.SIGKILL)
        await router.ended()
        yield response.headers["X-Splitpool-Stream-Id"]


@pytest.mark.parametrize("by_request_id", [False, True])
async def test_a_stream_of_a_killed_router_goes_on_through_the_other(
    tmp_path: Path, by_request_id: bool
) -> None:
    workers = [FakeWorker(name=f"w{n}") for n in range(3)]
    for worker in workers:
        worker.script = Script(hold_after_events=2)
    async with (
        two_routers(tmp_path, *workers) as (one, other),
        aiohttp.ClientSession() as client,
        cut(client, one, NAMED) as stream_id,
    ):
        for worker in workers:
            worker.release.set()
        name = "mine-1" if by_request_id else stream_id
        url = f"{other.url}/v1/streams/{name}?starting_after=1"
        async with client.get(url, headers=RESUMABLE) as response:
            got = events(await response.read())
    assert [event.id for event in got] == [2, 3, 4, 5, 6]
    assert got[-1].data == "[DONE]"
    assert sum(worker.executions for worker in workers) == 1


async def test_another_caller_finds_nothing_through_either(tmp_path: Path) -> None:
    worker = FakeWorker()
    worker.script = Script(hold_after_events=2)
    async with (
        two_routers(tmp_path, worker) as (one, other),
        aiohttp.ClientSession() as client,
        cut(client, one, NAMED) as stream_id,
    ):
        for name in ("mine-1", stream_id):
            url = f"{other.url}/v1/streams/{name}"
            headers = {"Authorization": "Bearer somebody"}
            async with client.get(url, headers=headers) as response:
                assert response.status == 404


async def test_routers_with_different_keys_share_no_callers(tmp_path: Path) -> None:
    worker = FakeWorker()
    worker.script = Script(hold_after_events=2)
    async with (
        two_routers(tmp_path, worker, keys=(KEY, "6b" * 32)) as (one, other),
        aiohttp.ClientSession() as client,
        cut(client, one, NAMED) as stream_id,
    ):
        url = f"{other.url}/v1/streams/{stream_id}"
        async with client.get(url, headers=RESUMABLE) as response:
            assert response.status == 404
