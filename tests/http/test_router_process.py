"""The router as a process: start, drain, stop, and what it says when it cannot start."""

import asyncio
import io
import json
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp
import psutil

from fakes.fake_worker import FakeWorker, started
from fakes.router_process import RouterProcess, start
from fakes.router_rig import CHAT, chat, events, pool_object, until, write_endpoints
from fakes.scripted_answers import Script


@asynccontextmanager
async def serving(
    path: Path, worker: FakeWorker, *args: str, **env: str
) -> AsyncIterator[RouterProcess]:
    """A router that serves this worker; killed at the end if it still runs."""
    endpoints = path / "endpoints.json"
    async with started(worker):
        write_endpoints(endpoints, [pool_object()], [worker])
        router = await start("--port", "0", "--endpoints", str(endpoints), *args, **env)
        try:
            await router.listens()
            yield router
        finally:
            await router.kill()


async def test_sigterm_lets_open_streams_finish_and_refuses_new_ones(tmp_path: Path) -> None:
    worker = FakeWorker()
    worker.script = Script(hold_after_events=2)
    async with serving(tmp_path, worker) as router, aiohttp.ClientSession() as client:
        streams = [
            await client.post(router.url + CHAT, json=chat(f"{n}", stream=True, max_tokens=5))
            for n in range(20)
        ]
        router.process.send_signal(signal.SIGTERM)
        await router.line("draining: 20")
        async with client.get(router.url + "/ready") as response:
            assert response.status == 503
        async with client.post(router.url + CHAT, json=chat()) as response:
            assert response.status == 503
            assert (await response.json())["error"]["code"] == "shutting_down"
            assert response.headers["Connection"] == "close"
        worker.release.set()
        for stream in streams:
            assert (await stream.read()).endswith(b"data: [DONE]\n\n")
        assert await router.ended() == 0
        assert worker.executions == 20


async def test_a_second_signal_ends_streams_with_an_error_event(tmp_path: Path) -> None:
    worker = FakeWorker()
    worker.script = Script(hold_after_events=2)
    async with serving(tmp_path, worker) as router, aiohttp.ClientSession() as client:
        async with client.post(router.url + CHAT, json=chat(stream=True)) as stream:
            router.process.send_signal(signal.SIGTERM)
            await router.line("draining: 1")
            router.process.send_signal(signal.SIGTERM)
            got = events(await stream.read())
        assert json.loads(got[-1].data)["error"]["code"] == "shutting_down"
        assert await router.ended() == 0
        await worker.freed.wait()


async def test_a_drain_limit_ends_streams_before_the_process_is_killed(tmp_path: Path) -> None:
    worker = FakeWorker()
    worker.script = Script(hold_after_events=2)
    async with (
        serving(tmp_path, worker, "--drain-seconds", "0.2") as router,
        aiohttp.ClientSession() as client,
        client.post(router.url + CHAT, json=chat(stream=True)) as stream,
    ):
        await worker.held.wait()
        router.process.send_signal(signal.SIGTERM)
        got = events(await stream.read())
        assert json.loads(got[-1].data)["error"]["code"] == "shutting_down"
        assert await router.ended() == 0


async def test_the_memory_of_large_bodies_goes_back(tmp_path: Path) -> None:
    worker = FakeWorker(kv_tokens=10**8, max_model_len=10**8)
    body = {"model": "tiny", "prompt": ["x" * 26] * 1_000_000, "max_tokens": 1}
    async with serving(tmp_path, worker) as router, aiohttp.ClientSession() as client:
        await router.line("serving=True")
        process = psutil.Process(router.process.pid)
        before = process.memory_info().rss
        sent, url = json.dumps(body).encode(), router.url + "/v1/completions"
        for _ in range(3):
            async with client.post(url, data=io.BytesIO(sent)) as response:
                assert response.status == 200
        await until(lambda: process.memory_info().rss < before + 32 * 2**20)


async def test_an_idle_router_stops_at_once(tmp_path: Path) -> None:
    async with serving(tmp_path, FakeWorker()) as router:
        router.process.send_signal(signal.SIGINT)
        assert await router.ended() == 0


async def test_a_taken_port_is_named_and_ends_with_2(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        router = await start("--port", port, "--endpoints", str(tmp_path / "none.json"))
        assert f"port {port} on 127.0.0.1 is already in use" in await router.line("in use")
        assert await router.ended() == 2


async def test_bad_arguments_are_named_and_end_with_2(tmp_path: Path) -> None:
    for args, env, word in (
        (("--port", "99999", "--endpoints", "x"), {}, "--port 99999"),
        (("--endpoints", "x", "--api-keys", str(tmp_path / "none")), {}, "--api-keys"),
        (("--endpoints", "x"), {"SPLITPOOL_CALLER_KEY": "no hex"}, "SPLITPOOL_CALLER_KEY"),
        (("--cluster",), {"KUBECONFIG": str(tmp_path / "none")}, "set KUBECONFIG"),
    ):
        router = await start(*args, **env)
        assert word in await router.line(word)
        assert await router.ended() == 2


async def test_a_missing_endpoints_file_is_waited_for(tmp_path: Path) -> None:
    worker, endpoints = FakeWorker(), tmp_path / "endpoints.json"
    router = await start("--port", "0", "--endpoints", str(endpoints))
    try:
        await router.listens()
        url = router.url
        async with started(worker), aiohttp.ClientSession() as client:
            async with client.get(url + "/ready") as response:
                assert response.status == 503
            write_endpoints(endpoints, [pool_object()], [worker])
            await router.line("generation 1")
            async with client.post(url + CHAT, json=chat()) as response:
                assert response.status == 200
    finally:
        await router.kill()


async def test_neither_bodies_nor_credentials_are_logged(tmp_path: Path) -> None:
    worker = FakeWorker()
    env = {"SPLITPOOL_INTERNAL_TOKEN": "tok-secret"}
    async with serving(tmp_path, worker, "--access-log", **env) as router:
        async with aiohttp.ClientSession() as client:
            headers = {"Authorization": "Bearer key-secret"}
            asked = chat("body-secret")
            async with client.post(router.url + CHAT, json=asked, headers=headers) as response:
                assert response.status == 200
        router.process.send_signal(signal.SIGTERM)
        assert router.process.stderr is not None
        logged = await router.process.stderr.read()
        assert b"POST /v1/chat/completions" in logged
        assert b"secret" not in logged


async def test_a_flood_of_connections_waits_for_a_busy_router_and_is_not_dropped(
    tmp_path: Path,
) -> None:
    async with serving(tmp_path, FakeWorker()) as router:
        where = urlsplit(router.url)
        router.process.send_signal(signal.SIGSTOP)
        try:
            async with asyncio.timeout(20):
                opened = await asyncio.gather(
                    *(asyncio.open_connection(where.hostname, where.port) for _ in range(300))
                )
        finally:
            router.process.send_signal(signal.SIGCONT)
        for _, writer in opened:
            writer.close()
