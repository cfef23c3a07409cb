"""A whole worker in the test's own process: real engine, real HTTP on loopback, a fake model."""

import json
import socket
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp
import torch

from fakes.event_source import Event, Parser
from fakes.fake_runner import FakeRunner, continuation
from fakes.toy_text import LETTERS, letters
from splitpool_worker import config
from splitpool_worker.api.metrics import ClassMemory
from splitpool_worker.api.service import Intervals, Service
from splitpool_worker.engine.batch import Batch
from splitpool_worker.fences.verdict import Enforcement, Fence
from splitpool_worker.serving import Model, listening, running

KV_BYTES = 10  # of one token; what it is does not matter to a fake model
FIXED = {"model": "toy", "temperature": 0, "ignore_eos": True}
RESUMABLE = {"X-Splitpool-Resumable": "true"}


@dataclass(frozen=True, kw_only=True)
class Rig:
    """A running worker and a client of it."""

    url: str
    service: Service
    runner: FakeRunner
    http: aiohttp.ClientSession

    async def post(
        self, body: Any, *, path: str = "/v1/completions", headers: Mapping[str, str] | None = None
    ) -> tuple[int, dict[str, Any]]:
        """Status and JSON of an answer."""
        async with self.http.post(self.url + path, json=body, headers=headers) as response:
            return response.status, await response.json()

    async def complete(self, prompt: Any = "story", **fields: Any) -> dict[str, Any]:
        """A whole completion, always the same for the same prompt."""
        status, answer = await self.post(FIXED | {"prompt": prompt} | fields)
        assert status == 200, answer
        return answer

    @asynccontextmanager
    async def stream(
        self, prompt: str = "story", *, headers: Mapping[str, str] | None = None, **fields: Any
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """A streamed completion; leaving the block cuts the connection."""
        body = FIXED | {"prompt": prompt, "stream": True} | fields
        url = f"{self.url}/v1/completions"
        async with self.http.post(url, json=body, headers=headers) as response:
            assert response.status == 200, await response.text()
            try:
                yield response
            finally:
                response.close()

    async def resume(
        self, key: str, headers: Mapping[str, str] | None = None, **query: int
    ) -> tuple[int, list[Event]]:
        """Status and events of `GET /v1/streams/{key}`."""
        url = f"{self.url}/v1/streams/{key}"
        async with self.http.get(url, params=query, headers=headers) as response:
            return response.status, await events(response) if response.status == 200 else []

    async def delete(self, key: str, headers: Mapping[str, str] | None = None) -> int:
        """Status of `DELETE /v1/streams/{key}`."""
        async with self.http.delete(f"{self.url}/v1/streams/{key}", headers=headers) as response:
            return response.status

    async def until(self, condition: Callable[[], bool]) -> None:
        """Until the condition holds, looked at after each sweep of the worker."""
        async with self.service.swept:
            await self.service.swept.wait_for(condition)

    def idle(self) -> bool:
        """Nothing waits, nothing runs, no block is held."""
        return all(
            part.waiting == part.running == part.outstanding_tokens == part.kv_used_tokens == 0
            for part in self.service.engine.load().values()
        )


@asynccontextmanager
async def worker(
    *flags: str,
    env: Mapping[str, str] | None = None,
    classes: tuple[str, ...] = ("interactive",),
    runner: FakeRunner | None = None,
    intervals: Intervals | None = None,
    send_buffer: int | None = None,
) -> AsyncIterator[Rig]:
    """A worker of the given flags; every class has half of the blocks or all of them."""
    torch.set_num_threads(1)  # for such small tensors a second one only waits for a core
    runner = runner or FakeRunner(num_blocks=1024)
    per_class = [item for cls in classes for item in ("--class", cls, "--vram-bytes", "1Gi")]
    base = ["--model-name", "toy", "--model", "file:///toy", "--block-size", "4"]
    parsed = config.parse([*base, *per_class, *flags], env or {})
    blocks = runner.num_blocks // len(parsed.classes)
    memory = ClassMemory(
        quota=1 << 30,
        context=0,
        weights=1000,
        workspace=100,
        kv=blocks * runner.block_size * KV_BYTES,
        kv_bytes_per_token=KV_BYTES,
    )
    model = Model(
        runner=runner,
        text=letters(),
        memory={part.cls: memory for part in parsed.classes},
        ops="reference",
        device="here",
        fence=Fence(enforcement=Enforcement.CGROUP, limit=3 << 30, seen="a test"),
    )
    quick = intervals or Intervals(sweep=0.01, closing=1.0)
    bound = socket.create_server(("127.0.0.1", 0))
    if send_buffer is not None:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_buffer)
    async with (
        running(parsed, model, intervals=quick) as service,
        listening(service, bound),
        aiohttp.ClientSession() as http,
    ):
        url = f"http://127.0.0.1:{bound.getsockname()[1]}"
        yield Rig(url=url, service=service, runner=runner, http=http)


def hold_after(runner: FakeRunner, steps: int) -> threading.Event:
    """Let the model do so many more steps; the next one stays open until the event is set."""
    opened = threading.Event()
    last = len(runner.steps) + steps

    def wait(batch: Batch) -> None:
        if len(runner.steps) > last and not opened.wait(60):
            raise TimeoutError("nobody opened the step")

    runner.before_step = wait
    return opened


def expected(prompt: str, count: int) -> str:
    """What the fake model says after a prompt."""
    ids = [LETTERS.index(letter) for letter in prompt]
    return "".join(LETTERS[token] if token < 96 else "" for token in continuation(ids, count))


async def each(response: aiohttp.ClientResponse) -> AsyncIterator[Event]:
    """Events as they come."""
    parser = Parser()
    async for chunk in response.content.iter_any():
        for event in parser.feed(chunk):
            yield event


async def events(response: aiohttp.ClientResponse, limit: int | None = None) -> list[Event]:
    """Events until the end, or the first `limit`; what came with them is lost, as in a cut."""
    found: list[Event] = []
    if limit == 0:
        return found
    async for event in each(response):
        found.append(event)
        if len(found) == limit:
            break
    return found


def text(found: list[Event]) -> str:
    """What a reader of these events has on the screen."""
    bodies = [json.loads(event.data) for event in found if event.data != "[DONE]"]
    return "".join(choice["text"] for body in bodies for choice in body.get("choices", ()))


def numbers(found: list[Event]) -> list[int]:
    """The events' ids."""
    return [int(event.last_event_id) for event in found]
