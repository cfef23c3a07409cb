"""A scriptable worker over real HTTP: the worker's protocol, with failures on demand."""

import asyncio
import itertools
import json
import secrets
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

PARTS = ("parse", "tokenise", "queue", "prefill", "detokenise")


@dataclass(slots=True, kw_only=True)
class Script:
    """How the worker behaves from now on."""

    tokens: Sequence[str] = ("one", " two", " three", " four")
    delays: dict[str, float] = field(default_factory=dict)  # by part, slept and declared
    undeclared_delay: float = 0.0  # slept before the first content, in no part
    timing: bool = True
    status: int | None = None  # answered before any work
    status_headers: dict[str, str] = field(default_factory=dict)
    reset_after_reading: bool = False
    never_answer: bool = False
    die_after_events: int | None = None  # counted with the role event
    torn_event: bool = False  # dies inside the event that follows
    end_without_done: bool = False
    ping_before_first: int = 0
    hold_after_events: int | None = None  # waits there for `release`
    padding: int = 0  # bytes added to each token
    usage: tuple[int, int] = (7, 4)


@dataclass(slots=True, kw_only=True)
class Seen:
    """A request as it arrived."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


class Generation:
    """One running answer: its events so far, and whether it was stopped."""

    def __init__(self, *, id_: str, request_id: str, caller: str, resumable: bool) -> None:
        self.id = id_
        self.request_id = request_id
        self.caller = caller
        self.resumable = resumable
        self.events: list[bytes] = []
        self.done = False
        self.changed = asyncio.Event()
        self.task: asyncio.Task[None] | None = None

    def add(self, event: bytes) -> None:
        """One more event."""
        self.events.append(event)
        self._wake()

    def finish(self) -> None:
        """Nothing more will come."""
        self.done = True
        self._wake()

    async def after(self, start: int) -> AsyncIterator[bytes]:
        """The events from number `start` on, as they come."""
        for index in itertools.count(start):
            while index >= len(self.events) and not self.done:
                await self.changed.wait()
            if index >= len(self.events):
                return
            yield self.events[index]

    def _wake(self) -> None:
        self.changed.set()
        self.changed = asyncio.Event()


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
        self.running += 1
        try:
            for part in PARTS:
                await asyncio.sleep(script.delays.get(part, 0.0))
            await self._hold(script, 0)
        except asyncio.CancelledError:
            self.freed.set()
            raise
        finally:
            self.running -= 1
        text = "".join(script.tokens) + "x" * script.padding
        prompt, answer = script.usage
        reply = {
            "object": "chat.completion",
            "model": self.model,
            "choices": [{"index": 0, "message": {"role": "assistant", "content": text}}],
            "usage": {"prompt_tokens": prompt, "completion_tokens": answer},
        }
        timing = ", ".join(f"{p};dur={script.delays.get(p, 0.0) * 1000}" for p in PARTS)
        return web.json_response(reply, headers={"Server-Timing": timing, "Server": "fake/1"})

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
        self.running += 1
        try:
            await self._events(generation, script)
        except asyncio.CancelledError:
            self.freed.set()
            raise
        finally:
            self.running -= 1
            generation.finish()

    async def _events(self, generation: Generation, script: Script) -> None:
        number = itertools.count()
        generation.add(_event(next(number), {"choices": [{"index": 0, "delta": _role()}]}))
        await self._hold(script, 1)
        lead = b": ping\n" * script.ping_before_first
        for part in ("queue", "prefill", "detokenise"):
            await asyncio.sleep(script.delays.get(part, 0.0))
        await asyncio.sleep(script.undeclared_delay)
        if script.timing:
            times = " ".join(f"{part}={script.delays.get(part, 0.0):.6f}" for part in PARTS)
            lead += f": splitpool-timing {times}\n".encode()
        for index, token in enumerate(script.tokens):
            content = token + "x" * script.padding
            delta = {"choices": [{"index": 0, "delta": {"content": content}}]}
            generation.add(lead + _event(next(number), delta))
            lead = b""
            await self._hold(script, index + 2)
        prompt, answer = script.usage
        last = {
            "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": prompt, "completion_tokens": answer},
        }
        generation.add(_event(next(number), last))
        if not script.end_without_done:
            generation.add(f"id: {next(number)}\ndata: [DONE]\n\n".encode())

    async def _hold(self, script: Script, events: int) -> None:
        if script.hold_after_events == events:
            self.held.set()
            await self.release.wait()
        else:
            await asyncio.sleep(0)

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


def _role() -> dict[str, str]:
    return {"role": "assistant", "content": ""}


def _event(number: int, data: dict[str, Any]) -> bytes:
    return f"id: {number}\ndata: {json.dumps(data)}\n\n".encode()


def _abort(request: web.Request) -> None:
    if request.transport is not None:
        request.transport.abort()


def _error(status: int, code: str, headers: dict[str, str] | None = None) -> web.Response:
    error = {"message": f"the fake answers {status}", "type": "error", "param": None, "code": code}
    return web.json_response({"error": error}, status=status, headers=headers)
