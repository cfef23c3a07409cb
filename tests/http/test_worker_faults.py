"""Clients that leave or do not read, steps that stay open or fail, and a worker that is told to
stop: nothing is lost that need not be, and nobody else notices."""

import asyncio
import json
import socket
from typing import Any

import aiohttp
import pytest

from fakes.event_source import Event
from fakes.worker_rig import (
    FIXED,
    RESUMABLE,
    Rig,
    each,
    events,
    expected,
    hold_after,
    numbers,
    text,
    worker,
)
from splitpool_worker.api.ring import MAX_UNREAD_BYTES
from splitpool_worker.api.service import Intervals
from splitpool_worker.engine.batch import Batch
from splitpool_worker.serving import drain


@pytest.fixture
async def rig() -> Any:
    async with worker() as running:
        yield running


async def get(rig: Rig, path: str) -> tuple[int, Any]:
    async with rig.http.get(rig.url + path) as response:
        return response.status, await response.json()


async def test_health_and_everything_else_answer_while_a_step_stays_open(rig: Rig) -> None:
    opened = hold_after(rig.runner, 0)
    asking = asyncio.create_task(rig.complete(max_tokens=2))
    await asyncio.to_thread(rig.runner.entered.wait, 60)

    assert (await get(rig, "/health"))[0] == 200
    status, state = await get(rig, "/ready")
    assert status == 200
    assert state["load"]["interactive"]["outstandingTokens"] > 0
    assert not asking.done()

    opened.set()
    assert (await asking)["usage"]["completion_tokens"] == 2


async def test_a_waiting_stream_gets_pings_that_break_no_client() -> None:
    async with worker(intervals=Intervals(heartbeat=0.01, sweep=0.01, closing=1.0)) as rig:
        opened = hold_after(rig.runner, 0)
        async with rig.stream(max_tokens=2) as response:
            for _ in range(3):
                assert await response.content.readline() == b": ping\n"
            opened.set()
            found = await events(response)

    assert text(found) == expected("story", 2)


@pytest.mark.parametrize("stream", [True, False])
async def test_a_client_that_leaves_before_the_first_token_frees_every_block(
    rig: Rig, stream: bool
) -> None:
    opened = hold_after(rig.runner, 0)
    body = FIXED | {"prompt": "x" * 200, "stream": stream}
    asking = asyncio.create_task(rig.post(body))
    await asyncio.to_thread(rig.runner.entered.wait, 60)
    asking.cancel()
    await rig.until(lambda: not rig.service.live)
    opened.set()

    await rig.until(rig.idle)
    assert len(rig.runner.steps) == 1


async def test_a_client_that_leaves_in_the_middle_frees_every_block_within_a_step(rig: Rig) -> None:
    opened = hold_after(rig.runner, 5)
    async with rig.stream(max_tokens=200) as response:
        await events(response, 2)
    await rig.until(lambda: not rig.service.live)
    opened.set()

    await rig.until(rig.idle)
    assert len(rig.runner.steps) <= 7


async def test_a_resumable_stream_goes_on_without_its_client(rig: Rig) -> None:
    async with rig.stream(headers=RESUMABLE, max_tokens=30) as response:
        key = response.headers["X-Splitpool-Stream-Id"]
    await rig.until(rig.idle)

    _, found = await rig.resume(key)
    assert text(found) == expected("story", 30)


def unread(rig: Rig, **fields: Any) -> socket.socket:
    """A connection that asked for a stream and reads nothing of it."""
    body = json.dumps(FIXED | {"prompt": "story", "stream": True} | fields).encode()
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.connect(("127.0.0.1", int(rig.url.rsplit(":", 1)[1])))
    connection.sendall(
        b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s"
        % (len(body), body)
    )
    return connection


async def test_a_client_that_never_reads_is_cut_off_and_holds_up_nobody() -> None:
    patience = Intervals(stall=0.3, sweep=0.01, closing=1.0)
    async with worker(intervals=patience, send_buffer=4096) as rig:
        connections = [unread(rig, max_tokens=250, logprobs=20) for _ in range(2)]
        await rig.until(lambda: len(rig.service.live) == 2)

        assert (await rig.complete(max_tokens=5))["usage"]["completion_tokens"] == 5
        await rig.until(lambda: not list(rig.service.streams))
        await rig.until(rig.idle)
        for connection in connections:
            connection.close()


async def test_a_stream_that_is_not_read_is_ended_before_it_takes_much_memory() -> None:
    async with worker("--resume-buffer-bytes", "64Ki", send_buffer=4096) as rig:
        with unread(rig, max_tokens=250, n=8, logprobs=20):
            await rig.until(lambda: bool(rig.service.live))
            largest = 0

            def ended() -> bool:
                nonlocal largest
                largest = max(largest, rig.service.streams.bytes)
                return not rig.service.live

            await rig.until(ended)
            await rig.until(rig.idle)

        async with rig.http.get(f"{rig.url}/metrics") as response:
            shown = await response.text()
    assert 0 < largest <= MAX_UNREAD_BYTES
    assert 'vllm:request_success_total{finished_reason="abort",model_name="toy"} 8.0' in shown


async def test_a_step_that_fails_ends_its_streams_with_an_error_and_the_worker_lives(
    rig: Rig,
) -> None:
    def fail(batch: Batch) -> None:
        if len(rig.runner.steps) == 3:
            raise RuntimeError("the model broke")

    rig.runner.before_step = fail
    async with rig.stream(max_tokens=20) as response:
        found = await events(response)

    assert json.loads(found[-1].data)["error"]["code"] == "engine_error"
    assert "[DONE]" not in {event.data for event in found}
    assert (await rig.complete(max_tokens=3))["usage"]["completion_tokens"] == 3


async def test_a_step_that_fails_is_a_500_where_nothing_was_sent(rig: Rig) -> None:
    def fail(batch: Batch) -> None:
        raise RuntimeError("the model broke")

    rig.runner.before_step = fail
    status, answer = await rig.post(FIXED | {"prompt": "x"})

    assert status == 500
    assert answer["error"]["type"] == "server_error"


async def test_without_an_engine_the_worker_is_not_ready_and_says_so(rig: Rig) -> None:
    rig.service.engine.stop(10)

    assert (await get(rig, "/ready"))[0] == 503
    assert (await get(rig, "/health"))[0] == 200
    status, answer = await rig.post(FIXED | {"prompt": "x"})
    assert status == 500
    assert answer["error"]["code"] == "engine_failed"


async def test_draining_finishes_twenty_streams_and_takes_no_new_ones(rig: Rig) -> None:
    async def follow(number: int) -> str:
        found: list[Event] = []
        async with rig.stream(f"story {number}", max_tokens=40) as response:
            async for event in each(response):
                found.append(event)
                started.release()
        assert found[-1].data == "[DONE]"
        assert numbers(found) == list(range(len(found)))
        return text(found)

    started = asyncio.Semaphore(0)
    following = [asyncio.create_task(follow(number)) for number in range(20)]
    while len(rig.service.live) < 20:
        await started.acquire()
    draining = asyncio.create_task(drain(rig.service))
    await asyncio.sleep(0)

    assert (await get(rig, "/ready"))[0] == 503
    async with rig.http.post(f"{rig.url}/v1/completions", json=FIXED | {"prompt": "x"}) as late:
        assert late.status == 503
        assert (await late.json())["error"]["code"] == "shutting_down"
        assert 1 <= int(late.headers["Retry-After"]) <= 30
    assert await asyncio.gather(*following) == [
        expected(f"story {number}", 40) for number in range(20)
    ]
    await draining


async def test_draining_lets_the_windows_of_resumable_streams_close() -> None:
    async with worker("--resume-window-seconds", "1") as rig:
        async with rig.stream(headers=RESUMABLE, max_tokens=4) as response:
            key = response.headers["X-Splitpool-Stream-Id"]
            await events(response)
        draining = asyncio.create_task(drain(rig.service))
        await asyncio.sleep(0)

        status, found = await rig.resume(key)

        assert status == 200
        assert text(found) == expected("story", 4)
        await draining
        assert not list(rig.service.streams)


async def test_draining_ends_what_takes_longer_than_the_limit_with_an_error() -> None:
    async with worker("--drain-seconds", "0") as rig:
        opened = hold_after(rig.runner, 3)
        async with rig.stream(max_tokens=200) as response:
            await events(response, 1)
            await drain(rig.service)
            found = await events(response)
        opened.set()

    assert json.loads(found[-1].data)["error"]["code"] == "shutting_down"


async def test_a_yield_caps_the_batch_class_for_a_while() -> None:
    async with worker(classes=("interactive", "batch")) as rig:
        url = f"{rig.url}/internal/yield"
        async with rig.http.put(url, json={"tokenBudget": 16, "ttlMs": 500}) as response:
            assert response.status == 204
        async with rig.http.put(url, json={"tokenBudget": 0, "ttlMs": 500}) as response:
            assert response.status == 400


async def test_the_metrics_speak_both_dialects_and_carry_no_ids(rig: Rig) -> None:
    await rig.complete(max_tokens=5)
    async with rig.stream(max_tokens=5) as response:
        await events(response)

    async with rig.http.get(f"{rig.url}/metrics") as response:
        shown = await response.text()
    where = 'model="toy",namespace="default",pool="pool"'
    own = f'class="interactive",{where}'
    for line in (
        f'splitpool_worker_tokens_total{{class="interactive",kind="generation",{where}}} 10.0',
        f"splitpool_worker_itl_seconds_count{{{own}}} 8.0",
        f"splitpool_worker_tpot_seconds_count{{{own}}} 2.0",
        'vllm:request_success_total{finished_reason="length",model_name="toy"} 2.0',
        'vllm:time_to_first_token_seconds_count{model_name="toy"} 2.0',
        'vllm:num_requests_running{model_name="toy"} 0.0',
        'vllm:cache_config_info{block_size="4",model_name="toy",num_gpu_blocks="1024"} 1.0',
    ):
        assert line in shown
    assert "stream_id" not in shown
    assert rig.service.stream_key not in shown


async def test_a_worker_reports_the_fence_that_it_sees(rig: Rig) -> None:
    _, state = await get(rig, "/ready")
    async with rig.http.get(f"{rig.url}/metrics") as response:
        shown = await response.text()

    assert state["enforcement"] == "Cgroup"
    assert state["fence"] == {"limit": 3 << 30, "seen": "a test"}
    where = 'enforcement="Cgroup",model="toy",namespace="default",pool="pool"'
    assert f"splitpool_worker_vram_limit_bytes{{{where}}} 3.221225472e+09" in shown


async def test_a_handler_that_ends_leaves_no_request_behind(rig: Rig) -> None:
    async def leave() -> None:
        url, body = f"{rig.url}/v1/completions", FIXED | {"prompt": "x" * 99}
        async with (
            aiohttp.ClientSession() as http,
            asyncio.timeout(0.01),
            http.post(url, json=body),
        ):
            pass

    await asyncio.gather(*(leave() for _ in range(30)), return_exceptions=True)

    await rig.until(lambda: not rig.service.live and rig.idle())
    assert not list(rig.service.streams)
