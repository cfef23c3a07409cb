"""How the end-to-end tests ask: bodies, streams that can be cut at an event, and what they said."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import aiohttp

from fakes.event_source import Event, Parser
from splitpool_bench.chain import Chain, steps

STORY = "Once upon a time, in a small village by the sea,"
RESUMABLE = {"X-Splitpool-Resumable": "true"}
DONE = "[DONE]"


def completion(chain: Chain, prompt: str = STORY, **fields: Any) -> dict[str, Any]:
    """A body whose answer is the same each time and has exactly `max_tokens` tokens."""
    fixed = {"temperature": 0, "max_tokens": 8, "ignore_eos": True}
    return {"model": chain.model, "prompt": prompt, **fixed, **fields}


async def ask(
    http: aiohttp.ClientSession, chain: Chain, body: Any, headers: Mapping[str, str] | None = None
) -> tuple[int, dict[str, Any]]:
    """Status and JSON of a completion that is not streamed."""
    url = f"{chain.url}/v1/completions"
    async with http.post(url, json=body, headers=headers) as response:
        return response.status, await response.json()


@asynccontextmanager
async def stream(
    http: aiohttp.ClientSession,
    chain: Chain,
    headers: Mapping[str, str] | None = None,
    **fields: Any,
) -> AsyncIterator[aiohttp.ClientResponse]:
    """A streamed completion; leaving the block cuts the connection."""
    body = completion(chain, **fields) | {"stream": True}
    async with http.post(f"{chain.url}/v1/completions", json=body, headers=headers) as response:
        assert response.status == 200, await response.text()
        try:
            yield response
        finally:
            response.close()


async def events_of(response: aiohttp.ClientResponse) -> AsyncIterator[Event]:
    """The events as they come."""
    parser = Parser()
    async for chunk in response.content.iter_any():
        for event in parser.feed(chunk):
            yield event


async def read(response: aiohttp.ClientResponse, limit: int | None = None) -> list[Event]:
    """Events until the end, or the first `limit`; what arrived beyond them is lost, as in a cut."""
    events: list[Event] = []
    if limit == 0:
        return events
    async for event in events_of(response):
        events.append(event)
        if len(events) == limit:
            break
    return events


async def resume(
    http: aiohttp.ClientSession,
    chain: Chain,
    key: str,
    query: Mapping[str, int],
    headers: Mapping[str, str] | None = None,
) -> tuple[int, list[Event]]:
    """Status and events of `GET /v1/streams/{key}`."""
    url = f"{chain.url}/v1/streams/{key}"
    async with http.get(url, params=query, headers=headers) as response:
        return response.status, await read(response) if response.status == 200 else []


def text(events: Iterable[Event]) -> str:
    """What a reader of these events has on the screen."""
    bodies = (json.loads(event.data) for event in events if event.data != DONE)
    return "".join(choice["text"] for body in bodies for choice in body.get("choices", ()))


def numbers(events: Iterable[Event]) -> list[int]:
    """The events' ids."""
    return [int(event.last_event_id) for event in events]


async def until(condition: Callable[[], Any], seconds: float = 60) -> Any:
    """Poll until a (possibly awaitable) condition is true, and return its value."""
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if asyncio.iscoroutine(value):
            value = await value
        if value:
            return value
        assert time.monotonic() < deadline, f"still not so after {seconds} s: {condition}"
        await asyncio.sleep(0.05)


async def load(http: aiohttp.ClientSession, chain: Chain, latency_class: str) -> dict[str, int]:
    """What the workers of a class say of themselves in `/ready`, summed."""
    total: dict[str, int] = {}
    for worker in chain.workers():
        async with http.get(f"{worker.url}/ready") as response:
            figures = (await response.json())["load"].get(latency_class, {})
        for name, value in figures.items():
            total[name] = total.get(name, 0) + value
    return total


def forwarded(chain: Chain, latency_class: str) -> tuple[int, int]:
    """Tokens that the class's worker has put through its model, in prefill and in decode."""
    (worker,) = (w for w in chain.workers() if w.classes == (latency_class,))
    records = [step["classes"][latency_class] for step in steps(chain, worker.name)]
    prefill = sum(record["prefill_tokens"] for record in records)
    return prefill, sum(record["decode_tokens"] + record["accepted_tokens"] for record in records)


async def idle(http: aiohttp.ClientSession, chain: Chain, latency_class: str) -> bool:
    """Whether no worker holds or waits for anything of a class."""
    figures = await load(http, chain, latency_class)
    return figures["waiting"] == figures["running"] == figures["outstandingTokens"] == 0
