"""The load generator against a server that speaks the OpenAI protocol, well and badly."""

import asyncio
import itertools
import json
import re
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web
from aiohttp.test_utils import TestServer

from splitpool_bench.client import Client, session
from splitpool_bench.exchange import Job
from splitpool_bench.prompts import learn

JOB = Job(prompt=" the sea", max_tokens=3, latency_class="batch")
TOKENS = [b'{"choices": [{"index": 0, "text": "%c"}]}' % letter for letter in b"abc"]
USAGE = b'{"choices": [], "usage": {"prompt_tokens": 2, "completion_tokens": 3}}'


class Server:
    """Answers every completion with the given events, and counts words as tokens."""

    def __init__(self, events: Sequence[bytes], status: int = 200) -> None:
        self.events = events
        self.status = status
        self.asked: list[tuple[dict[str, Any], str | None]] = []

    async def completions(self, request: web.Request) -> web.StreamResponse:
        self.asked.append((await request.json(), request.headers.get("X-Splitpool-Class")))
        if self.status != 200:
            return web.json_response({"error": {}}, status=self.status)
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for event in self.events:
            await response.write(b"data: %s\n\n" % event)
        return response

    async def tokenize(self, request: web.Request) -> web.Response:
        prompt = (await request.json())["prompt"]
        return web.json_response({"count": 1 + len(prompt.split())})


@asynccontextmanager
async def client_of(server: Server, clock: Callable[[], float]) -> AsyncIterator[Client]:
    app = web.Application()
    app.router.add_post("/v1/completions", server.completions)
    app.router.add_post("/tokenize", server.tokenize)
    async with TestServer(app) as running, session() as http:
        yield Client(http, str(running.make_url("/")), "a-model", clock)


def ticking() -> Callable[[], float]:
    """A clock that is one second on each time it is read."""
    return itertools.count(0.0).__next__


async def test_a_stream_is_counted_by_usage_and_by_events() -> None:
    server = Server([*TOKENS, USAGE, b"[DONE]"])
    async with client_of(server, ticking()) as client:
        outcome = await client.complete(JOB)

    assert outcome.failure is None
    assert outcome.text == "abc"
    assert len(outcome.content_times) == 3
    assert outcome.output_tokens == 3
    assert outcome.prompt_tokens == 2
    assert outcome.ttft is not None
    assert 0 < outcome.ttft <= outcome.e2e


async def test_a_job_asks_for_its_length_its_class_and_usage() -> None:
    server = Server([b"[DONE]"])
    async with client_of(server, ticking()) as client:
        await client.complete(JOB)

    ((body, latency_class),) = server.asked
    assert latency_class == "batch"
    assert body["model"] == "a-model"
    assert (body["max_tokens"], body["ignore_eos"], body["stream"]) == (3, True, True)
    assert body["stream_options"] == {"include_usage": True}


async def test_a_refusal_an_error_event_and_a_cut_are_failures() -> None:
    error = json.dumps({"error": {"code": "worker_lost"}}).encode()
    cases = {
        "http 429": Server([], status=429),
        "worker_lost": Server([TOKENS[0], error]),
        "cut": Server(TOKENS),
    }
    for failure, server in cases.items():
        async with client_of(server, ticking()) as client:
            assert (await client.complete(JOB)).failure == failure


async def test_a_server_that_is_not_there_is_a_failure_and_not_an_exception() -> None:
    async with session() as http:
        outcome = await Client(http, "http://127.0.0.1:1", "a-model").complete(JOB)

    assert outcome.failure == "ClientConnectorError"
    assert outcome.ttft is None


async def test_prompts_are_learned_from_the_servers_tokenizer() -> None:
    async with client_of(Server([]), ticking()) as client:
        vocabulary = await learn(client.count_tokens)

    assert vocabulary.added_tokens == 1


async def test_a_kept_connection_that_the_server_closed_fails_no_request() -> None:
    """Some servers close after each answer without having said that they would."""
    connections = 0

    async def once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        head = await reader.readuntil(b"\r\n\r\n")
        (length,) = re.findall(rb"(?i)content-length: (\d+)", head)
        await reader.readexactly(int(length))
        body = b"".join(b"data: %s\n\n" % each for each in (*TOKENS, USAGE, b"[DONE]"))
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
        await writer.drain()
        await reader.read(1)  # the next request comes, and is not answered
        writer.transport.abort()

    server = await asyncio.start_server(once, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server, session() as http:
        client = Client(http, f"http://127.0.0.1:{port}", "a-model")
        outcomes = [await client.complete(JOB) for _ in range(3)]

    assert [each.failure for each in outcomes] == [None] * 3
    assert connections == 3


async def test_a_server_that_closes_without_an_answer_fails_the_request() -> None:
    connections = 0

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        await reader.readuntil(b"\r\n\r\n")
        writer.transport.abort()

    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server, session() as http:
        outcome = await Client(http, f"http://127.0.0.1:{port}", "a-model").complete(JOB)

    assert outcome.failure is not None
    assert connections == 1
