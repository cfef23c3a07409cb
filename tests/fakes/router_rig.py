"""A real router in front of fake workers, on loopback ports, with everything a test looks at."""

import asyncio
import io
import json
import os
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web
from prometheus_client.parser import text_string_to_metric_families

from fakes.fake_worker import FakeWorker
from splitpool_router.app import Router, running
from splitpool_router.config import Config, Limits
from splitpool_router.fleet.discovery import FileDiscovery
from splitpool_router.placing.classify import LatencyClass

CHAT = "/v1/chat/completions"


def pool_object(name: str = "assistant", model: str = "tiny", **spec: Any) -> dict[str, Any]:
    """An InferencePool object; keywords replace parts of its spec."""
    pools = {
        "interactive": {"vram": "1Gi", "replicas": 1, "queueTimeoutSeconds": 10, "ttftP99Ms": 5000},
        "batch": {"vram": "1Gi", "replicas": 1, "queueTimeoutSeconds": 10},
    }
    for cls, fields in spec.pop("pools", {}).items():
        pools[cls] = {**pools[cls], **fields}
    return {
        "apiVersion": "splitpool.dev/v1alpha1",
        "kind": "InferencePool",
        "metadata": {"name": name, "namespace": "default", "generation": 1},
        "spec": {"model": {"name": model}, "pools": pools, **spec},
    }


def chat(text: str = "hello", **fields: Any) -> dict[str, Any]:
    """The body of a chat request."""
    return {"model": "tiny", "messages": [{"role": "user", "content": text}], **fields}


def config(path: Path, **changes: Any) -> Config:
    """A configuration with limits that suit tests."""
    limits = Limits(connect=2, stream_head=20, whole_head=20, idle=20)
    base = Config(
        port=0,
        endpoints=path,
        caller_key=b"k" * 32,
        limits={LatencyClass.INTERACTIVE: limits, LatencyClass.BATCH: limits},
    )
    return replace(base, **changes)


def write_endpoints(
    path: Path, pools: Iterable[dict[str, Any]], workers: Iterable[FakeWorker], generation: int = 1
) -> None:
    """The endpoints file, replaced by rename as local mode does."""
    content = {
        "generation": generation,
        "pools": list(pools),
        "workers": [worker.endpoint() for worker in workers],
    }
    draft = path.with_suffix(".draft")
    draft.write_text(json.dumps(content))
    os.replace(draft, path)


async def until(condition: Callable[[], bool]) -> None:
    """Returns when the condition holds."""
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110 - no event tells of another program's state
            await asyncio.sleep(0.005)


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One event as a client reads it."""

    id: int | None
    data: str

    @property
    def content(self) -> str:
        """The token in it."""
        if self.data == "[DONE]":
            return ""
        choices = json.loads(self.data).get("choices") or [{}]
        return str(choices[0].get("delta", {}).get("content") or "")


class Rig:
    """The router under test and a client of it."""

    def __init__(self, router: Router, url: str, client: aiohttp.ClientSession, path: Path) -> None:
        self.router = router
        self.fleet = router._fleet
        self.url = url
        self.client = client
        self.path = path

    async def post(
        self, body: object, *, path: str = CHAT, headers: dict[str, str] | None = None
    ) -> tuple[int, aiohttp.ClientResponse, Any]:
        """Status, response and JSON of a request without streaming."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        every = {"Content-Type": "application/json", **(headers or {})}
        payload = io.BytesIO(data) if len(data) > 2**18 else data
        async with self.client.post(self.url + path, data=payload, headers=every) as response:
            text = await response.read()
            return response.status, response, json.loads(text) if text else None

    @asynccontextmanager
    async def stream(
        self, body: dict[str, Any] | None = None, *, headers: dict[str, str] | None = None
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """A streamed request; leaving the block cuts it."""
        asked = body or chat(stream=True)
        response = await self.client.post(self.url + CHAT, json=asked, headers=headers)
        try:
            yield response
        finally:
            response.close()

    async def get(
        self, path: str, *, headers: dict[str, str] | None = None, method: str = "GET"
    ) -> tuple[int, aiohttp.ClientResponse, bytes]:
        """Status, response and body of a request without a body."""
        async with self.client.request(method, self.url + path, headers=headers) as response:
            return response.status, response, await response.read()

    async def series(self, name: str) -> dict[tuple[tuple[str, str], ...], float]:
        """The samples of one series by their labels."""
        _, _, text = await self.get("/metrics")
        return {
            tuple(sorted(sample.labels.items())): sample.value
            for family in text_string_to_metric_families(text.decode())
            for sample in family.samples
            if sample.name == f"splitpool_router_{name}"
        }

    async def total(self, name: str, **labels: str) -> float:
        """The sum of the samples of one series that carry these labels."""
        wanted = set(labels.items())
        return sum(
            value for found, value in (await self.series(name)).items() if wanted <= set(found)
        )


def events(raw: bytes) -> list[Event]:
    """The events of a finished stream; comments are skipped, a torn last event is an error."""
    assert not raw or raw.endswith(b"\n\n"), "the stream ends inside an event"
    found = []
    for block in raw.decode().split("\n\n"):
        lines = [line for line in block.split("\n") if line and not line.startswith(":")]
        fields = dict(line.split(": ", 1) for line in lines)
        if fields:
            number = int(fields["id"]) if "id" in fields else None
            found.append(Event(id=number, data=fields["data"]))
    return found


@asynccontextmanager
async def rig(
    path: Path,
    *workers: FakeWorker,
    pools: Iterable[dict[str, Any]] | None = None,
    **changes: Any,
) -> AsyncIterator[Rig]:
    """A router in front of the workers, all of them started and seen ready."""
    endpoints = path / "endpoints.json"
    try:
        for worker in workers:
            await worker.start()
        write_endpoints(endpoints, pools or [pool_object()], workers)
        made = config(endpoints, **changes)
        async with running(made, FileDiscovery(endpoints)) as router:
            runner = web.AppRunner(
                router.app(), handler_cancellation=True, shutdown_timeout=0.1, access_log=None
            )
            await runner.setup()
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            host, port = runner.addresses[0][:2]
            async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as client:
                found = Rig(router, f"http://{host}:{port}", client, endpoints)
                await until(lambda: _all_seen(found, workers))
                try:
                    yield found
                finally:
                    await runner.cleanup()
    finally:
        for worker in workers:
            await worker.stop()


def _all_seen(found: Rig, workers: Iterable[FakeWorker]) -> bool:
    seen = {worker.name for worker in found.fleet.workers.values() if worker.serving}
    return {worker.name for worker in workers if worker.ready} <= seen and (
        found.fleet.generation is not None
    )
