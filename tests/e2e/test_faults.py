"""Processes that are killed or told to stop, and clients that leave or do not read."""

import asyncio
import json
import signal
import socket
from urllib.parse import urlsplit

import aiohttp
import psutil
from e2e.asking import DONE, RESUMABLE, ask, completion, idle, read, resume, stream, text, until
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
    http: aiohttp.ClientSession, split: Chain, vocabulary_prompt: str
) -> None:
    body = completion(split, vocabulary_prompt, max_tokens=1000) | {"stream": True}
    request = asyncio.create_task(
        http.post(f"{split.url}/v1/completions", json=body).__aenter__()
    )
    await until(lambda: busy(http, split))

    request.cancel()
    await asyncio.gather(request, return_exceptions=True)
    if request.done() and not request.cancelled():
        request.result().close()

    await until(lambda: idle(http, split, "interactive"))


async def busy(http: aiohttp.ClientSession, chain: Chain) -> bool:
    return not await idle(http, chain, "interactive")


async def test_a_client_that_never_reads_holds_up_nobody(
    http: aiohttp.ClientSession, split: Chain
) -> None:
    body = json.dumps(completion(split, max_tokens=1500, logprobs=5) | {"stream": True}).encode()
    with unread(split, body):
        await until(lambda: busy(http, split))

        async with stream(http, split, max_tokens=20) as response:
            events = await asyncio.wait_for(read(response), timeout=60)

        assert events[-1].data == DONE
    await until(lambda: idle(http, split, "interactive"))


def unread(chain: Chain, body: bytes) -> socket.socket:
    """A connection that sent a request and reads nothing of the answer."""
    url = urlsplit(chain.url)
    connection = socket.create_connection((url.hostname or "", url.port or 0))
    connection.sendall(
        b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        b"Content-Length: %d\r\n\r\n%s" % (len(body), body)
    )
    return connection
