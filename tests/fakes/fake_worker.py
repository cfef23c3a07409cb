"""A scriptable worker over real HTTP: the worker's protocol, with failures on demand."""

import asyncio
import json
import secrets
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any

from aiohttp import web

from fakes.scripted_answers import Generation, Hold, Script, generate, whole


@dataclass(slots=True, kw_only=True)
class Seen:
    """A request as it arrived."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


class FakeWorker:
    """Start it, point a router at it, script it, look at what it saw."""

    def __init__(
        self,
        *,
        name: str = "assistant-interactive-0",
        pool: str = "assistant",
        namespace: str = "default",
        host: str = "127.0.0.1",
        model: str = "tiny",
        classes: Sequence[str] = ("interactive",),
        kv_tokens: int = 4096,
        device: str = "node",
        token_budget: int = 256,
        max_model_len: int = 2048,
        token: str | None = None,
    ) -> None:
        self.name = name
        self.pool = pool
        self.namespace = namespace
        self.host = host
        self.model = model
        self.classes = tuple(classes)
        self.kv_tokens = kv_tokens
        self.device = device
        self.token_budget = token_budget
        self.max_model_len = max_model_len
        self.token = token
        self.stream_key = secrets.token_hex(4)
        self.uid = secrets.token_hex(4)
        self.script = Script()
        self.ready = True
        self.draining = False
        self.executions = 0
        self.seen: list[Seen] = []
        self.yields: list[dict[str, Any]] = []
        self.generations: dict[str, Generation] = {}
        self.running = 0
        self.freed = asyncio.Event()  # set when a generation ends before its time
        self.held = asyncio.Event()  # set when a generation reaches its hold
        self.release = asyncio.Event()
        self.written_bytes = 0
        self.cut = asyncio.Event()  # set when a reader of a stream leaves before its end
        self.url = ""
        self._runner: web.AppRunner | None = None

    async def start(self, port: int = 0) -> None:
        """Listens on its host, as a rule loopback."""
        app = web.Application(client_max_size=64 * 2**20)
        app.add_routes(
            [
                web.get("/health", self._health),
                web.get("/ready", self._ready),
                web.post("/v1/chat/completions", self._complete),
                web.post("/v1/completions", self._complete),
                web.post("/tokenize", self._tokenize),
                web.get("/v1/streams/{id}", self._resume),
                web.delete("/v1/streams/{id}", self._stop_stream),
                web.put("/internal/yield", self._yield),
            ]
        )
        self._runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, self.host, port)
        await site.start()
        host, bound = self._runner.addresses[0][:2]
        self.url = f"http://{host}:{bound}"

    async def stop(self) -> None:
        """Stops listening and cuts every connection: from now on connects are refused."""
        for generation in self.generations.values():
            if generation.task is not None:
                generation.task.cancel()
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def restart(self) -> None:
        """Comes back on the same port as another incarnation, knowing nothing."""
        port = int(self.url.rpartition(":")[2])
        await self.stop()
        self.stream_key, self.uid = secrets.token_hex(4), secrets.token_hex(4)
        self.generations.clear()
        await self.start(port)

    def endpoint(self) -> dict[str, object]:
        """Its line of the endpoints file."""
        return {
            "pool": self.pool,
            "namespace": self.namespace,
            "name": self.name,
            "classes": list(self.classes),
            "url": self.url,
            "uid": self.uid,
            "terminating": False,
        }

    def completions(self) -> list[Seen]:
        """The completion requests that arrived, refused ones too."""
        return [seen for seen in self.seen if "completions" in seen.path]

    async def _health(self, request: web.Request) -> web.Response:
        return web.json_response({"status": "ok"})

    async def _ready(self, request: web.Request) -> web.Response:
        load = {
            "outstandingTokens": 0,
            "waiting": 0,
            "running": self.running,
            "waitingTokens": 0,
            "kvTokens": self.kv_tokens,
            "kvUsedTokens": 0,
            "maxBatch": 8,
            "tokenBudget": self.token_budget,
        }
        state = {
            "model": self.model,
            "pool": self.pool,
            "namespace": self.namespace,
            "name": self.name,
            "classes": list(self.classes),
            "ready": self.ready,
            "draining": self.draining,
            "device": self.device,
            "streamKey": self.stream_key,
            "maxModelLen": self.max_model_len,
            "load": {cls: load for cls in self.classes},
        }
        return web.json_response(state, status=200 if self.ready else 503)

    async def _complete(self, request: web.Request) -> web.StreamResponse:
        body = await self._note(request)
        script = self.script
        if script.reset_after_reading:
            self.executions += 1
            _abort(request)
            raise ConnectionResetError
        if self.token is not None and request.headers.get("X-Splitpool-Token") != self.token:
            return _error(401, "unauthorized")
        if script.status is not None:
            return _error(script.status, "scripted", script.status_headers)
        self.executions += 1
        if script.never_answer:
            await asyncio.Event().wait()
        if json.loads(body).get("stream"):
            return await self._stream(request, script)
        return await self._whole(script)

    async def _whole(self, script: Script) -> web.Response:
        with self._at_work():
            reply, headers = await whole(script, self.model, self._hold(script))
        return web.json_response(reply, headers={**headers, "Server": "fake/1"})

    async def _stream(self, request: web.Request, script: Script) -> web.StreamResponse:
        for part in ("parse", "tokenise"):
            await asyncio.sleep(script.delays.get(part, 0.0))
        generation = Generation(
            id_=f"{self.stream_key}-{secrets.token_hex(16)}",
            request_id=request.headers.get("X-Request-Id", ""),
            caller=request.headers.get("X-Splitpool-Caller", ""),
            resumable=request.headers.get("X-Splitpool-Resumable") == "true",
        )
        self.generations[generation.id] = generation
        generation.task = asyncio.create_task(self._generate(generation, script))
        return await self._write(request, generation, 0, script)

    async def _write(
        self, request: web.Request, generation: Generation, start: int, script: Script
    ) -> web.StreamResponse:
        out = web.StreamResponse(
            headers={
                "Content-Type": "text/event-stream; charset=utf-8",
                "X-Splitpool-Stream-Id": generation.id,
                "Server": "fake/1",
            }
        )
        await out.prepare(request)
        written = start
        try:
            async for event in generation.after(start):
                if script.die_after_events is not None and written >= script.die_after_events:
                    if script.torn_event:
                        await out.write(event[: len(event) // 2])
                    _abort(request)
                    raise ConnectionResetError
                await out.write(event)
                written += 1
                self.written_bytes += len(event)
        except (asyncio.CancelledError, ConnectionError):
            self.cut.set()
            if not generation.resumable and generation.task is not None:
                generation.task.cancel()
            raise
        await out.write_eof()
        return out

    async def _generate(self, generation: Generation, script: Script) -> None:
        try:
            with self._at_work():
                await generate(generation, script, self._hold(script))
        finally:
            generation.finish()

    @contextmanager
    def _at_work(self) -> Iterator[None]:
        """Counted as running; `freed` tells that it ended before its time."""
        self.running += 1
        try:
            yield
        except asyncio.CancelledError:
            self.freed.set()
            raise
        finally:
            self.running -= 1

    def _hold(self, script: Script) -> Hold:
        async def hold(events: int) -> None:
            if script.hold_after_events == events:
                self.held.set()
                await self.release.wait()
            else:
                await asyncio.sleep(0)

        return hold

    async def _resume(self, request: web.Request) -> web.StreamResponse:
        await self._note(request)
        generation = self._find(request)
        if generation is None:
            return _error(404, "stream_not_found")
        given = [request.query.get("starting_after"), request.headers.get("Last-Event-ID")]
        start = max((int(value) + 1 for value in given if value is not None), default=0)
        if generation.done and start >= len(generation.events):
            return web.Response(status=204)
        if request.query.get("gone"):
            return _error(410, "events_expired")
        return await self._write(request, generation, start, Script())

    async def _stop_stream(self, request: web.Request) -> web.Response:
        await self._note(request)
        generation = self._find(request)
        if generation is None:
            return _error(404, "stream_not_found")
        if generation.task is not None:
            generation.task.cancel()
        return web.Response(status=204)

    def _find(self, request: web.Request) -> Generation | None:
        wanted = request.match_info["id"]
        caller = request.headers.get("X-Splitpool-Caller", "")
        for generation in self.generations.values():
            named = wanted in (generation.id, generation.request_id)
            if named and generation.caller == caller and generation.resumable:
                return generation
        return None

    async def _tokenize(self, request: web.Request) -> web.Response:
        body = await self._note(request)
        return web.json_response({"count": len(json.loads(body).get("prompt", ""))})

    async def _yield(self, request: web.Request) -> web.Response:
        self.yields.append(json.loads(await self._note(request)))
        return web.Response(status=204)

    async def _note(self, request: web.Request) -> bytes:
        body = await request.read()
        self.seen.append(
            Seen(
                method=request.method,
                path=request.path_qs,
                headers={name.lower(): value for name, value in request.headers.items()},
                body=body,
            )
        )
        return body


@asynccontextmanager
async def started(*workers: FakeWorker) -> AsyncIterator[None]:
    """The workers listen while the block runs."""
    try:
        for worker in workers:
            await worker.start()
        yield
    finally:
        for worker in workers:
            await worker.stop()


def _abort(request: web.Request) -> None:
    if request.transport is not None:
        request.transport.abort()


def _error(status: int, code: str, headers: dict[str, str] | None = None) -> web.Response:
    error = {"message": f"the fake answers {status}", "type": "error", "param": None, "code": code}
    return web.json_response({"error": error}, status=status, headers=headers)
