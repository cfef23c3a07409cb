"""An API server of one kind over real HTTP: listings, watches, and how each of them may break."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

Object = dict[str, Any]


def named(name: str, value: int = 0, version: int = 1) -> Object:
    """An object with a name and something that changes."""
    meta = {"name": name, "namespace": "default", "resourceVersion": str(version)}
    return {"metadata": meta, "value": value}


def line(kind: str, found: Object) -> bytes:
    """One line of a watch."""
    return json.dumps({"type": kind, "object": found}).encode() + b"\n"


def bookmark(version: int) -> bytes:
    """How far the server is."""
    return line("BOOKMARK", {"metadata": {"resourceVersion": str(version)}})


def refusal(code: int, message: str) -> Object:
    """A Status object."""
    return {"kind": "Status", "code": code, "reason": "Scripted", "message": message}


EXPIRED = refusal(410, "too old resource version: 1 (7)")


@dataclass(slots=True, kw_only=True)
class Watch:
    """One watch as the server serves it: what it says, and what follows."""

    lines: list[bytes] = field(default_factory=list)
    status: int = 200
    refusal: Object | None = None
    then: str = "stay"  # silent, "end" in order, or "cut"


@dataclass(slots=True, kw_only=True)
class FakeApiServer:
    """Set what exists and what the next watches do, then look at what was asked."""

    objects: list[Object] = field(default_factory=list)
    version: int = 1
    page: int = 100
    refuse_lists: list[tuple[int, Object]] = field(default_factory=list)
    watches: list[Watch] = field(default_factory=list)  # in order; then silent ones
    lists: list[dict[str, str]] = field(default_factory=list)
    watched: list[dict[str, str]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    url: str = ""

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """A listing or a watch."""
        self.headers.append(dict(request.headers))
        query = dict(request.query)
        if "watch" in query:
            return await self._watch(request, query)
        return self._list(query)

    def _list(self, query: dict[str, str]) -> web.Response:
        self.lists.append(query)
        if self.refuse_lists:
            status, body = self.refuse_lists.pop(0)
            return web.json_response(body, status=status)
        start = int(query.get("continue", "0"))
        metadata = {"resourceVersion": str(self.version)}
        if start + self.page < len(self.objects):
            metadata["continue"] = str(start + self.page)
        items = self.objects[start : start + self.page]
        return web.json_response({"metadata": metadata, "items": items})

    async def _watch(self, request: web.Request, query: dict[str, str]) -> web.StreamResponse:
        self.watched.append(query)
        script = self.watches.pop(0) if self.watches else Watch()
        if script.refusal is not None:
            return web.json_response(script.refusal, status=script.status)
        out = web.StreamResponse()
        await out.prepare(request)
        for each in script.lines:
            await out.write(each)
        if script.then == "stay":
            await asyncio.Event().wait()
        if script.then == "cut" and request.transport is not None:
            await asyncio.sleep(0.05)
            request.transport.abort()
        return out


@asynccontextmanager
async def serving(server: FakeApiServer) -> AsyncIterator[None]:
    """The server listens on a loopback port while the block runs."""
    app = web.Application()
    app.router.add_get("/{path:.*}", server.handle)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0][:2]
    server.url = f"http://{host}:{port}"
    try:
        yield
    finally:
        await runner.cleanup()
