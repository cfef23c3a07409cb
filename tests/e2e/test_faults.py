"""Processes that are killed or told to stop, and clients that leave or do not read."""

import asyncio
import json
import signal
import socket
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import psutil

from e2e.asking import (
    DONE,
    STORY,
    ask,
    completion,
    events_of,
    forwarded,
    idle,
    numbers,
    read,
    stream,
    until,
)
from fakes.event_source import Event
from splitpool_bench.chain import Chain, wait_until_ready


def worker_process(chain: Chain, name: str) -> psutil.Process:
    """The process of a worker, found among the descendants of `splitpool up`."""
    for process in psutil.Process(chain.process.pid).children(recursive=True):
        command = process.cmdline()
        if "splitpool_worker" in command and name in command:
            return process
    raise AssertionError(f"{name} does not run")


async def test_a_worker_killed_mid_stream_ends_it_with_an_error_and_the_pool_recovers(
    http: aiohttp.ClientSession, split: Chain
) -> None:
    (worker,) = (w for w in split.workers() if w.classes == ("interactive",))
    async with stream(http, split, max_tokens=1000) as response:
        await read(response, limit=3)
        worker_process(split, worker.name).kill()
        events = await read(response)

    assert json.loads(events[-1].data)["error"]["code"] == "worker_lost"
    assert DONE not in {event.data for event in events}
    await asyncio.to_thread(wait_until_ready, split, 120)
    body = completion(split, max_tokens=2) | {"stream": False}
    await until(lambda: answers(http, split, body))


async def answers(http: aiohttp.ClientSession, chain: Chain, body: object) -> bool:
    status, _ = await ask(http, chain, body, {"X-Splitpool-Class": "interactive"})
    assert status in {200, 502, 503, 504}
    return status == 200


async def test_a_client_that_leaves_before_its_first_token_frees_the_engine(
    http: aiohttp.ClientSession, split: Chain
) -> None:
    long_prompt = "the sea " * 700  # seconds of prefill
    _, before = forwarded(split, "interactive")
    with unread(split, completion(split, long_prompt, max_tokens=500)):
        await until(lambda: busy(http, split))

    await until(lambda: idle(http, split, "interactive"))
    assert forwarded(split, "interactive")[1] - before < 50  # of the 500 that it asked for


async def busy(http: aiohttp.ClientSession, chain: Chain) -> bool:
    return not await idle(http, chain, "interactive")


async def test_a_client_that_never_reads_holds_up_nobody(
    http: aiohttp.ClientSession, split: Chain
) -> None:
    with unread(split, completion(split, max_tokens=1500, logprobs=5)):
        await until(lambda: busy(http, split))

        async with stream(http, split, max_tokens=20) as response:
            events = await asyncio.wait_for(read(response), timeout=60)

        assert events[-1].data == DONE
    await until(lambda: idle(http, split, "interactive"))


async def test_sigterm_lets_twenty_open_streams_finish(
    http: aiohttp.ClientSession, fresh: Chain
) -> None:
    started = asyncio.Barrier(21)

    async def follow(number: int) -> list[Event]:
        async with stream(http, fresh, prompt=f"{number} {STORY}", max_tokens=40) as response:
            events: list[Event] = []
            async for event in events_of(response):
                events.append(event)
                if len(events) == 1:
                    await started.wait()
            return events

    async with asyncio.TaskGroup() as group:
        streams = [group.create_task(follow(number)) for number in range(20)]
        await asyncio.wait_for(started.wait(), timeout=60)
        fresh.process.send_signal(signal.SIGTERM)

    for finished in streams:
        events = finished.result()
        assert events[-1].data == DONE
        assert numbers(events) == list(range(len(events)))
    assert await asyncio.to_thread(fresh.process.wait, 60) == 0


def unread(chain: Chain, body: dict[str, Any]) -> socket.socket:
    """A connection that sent a request for a stream and reads nothing of the answer."""
    url = urlsplit(chain.url)
    data = json.dumps(body | {"stream": True}).encode()
    connection = socket.create_connection((url.hostname or "", url.port or 0))
    connection.sendall(
        b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        b"Content-Length: %d\r\n\r\n%s" % (len(data), data)
    )
    return connection
