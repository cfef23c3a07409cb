"""A proxy before the API server that plays its faults: it refuses, is slow, loses or forgets.

It holds the client certificate of one user and speaks plain HTTP on loopback, to whoever is given
its kubeconfig.

    with faulty(plane, "somebody") as proxy:
        proxy.befall(Fault(status=429, retry_after=1, every=2))
        proxy.heal()
"""

import asyncio
import contextlib
import json
import re
import ssl
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web

from cluster.api import Api
from cluster.control_plane import ControlPlane
from cluster.processes import free_ports

WRITES = frozenset({"POST", "PUT", "PATCH", "DELETE"})
# Whoever holds a lease loses it where these fail; that is a fault of its own.
_BUT_LEASES = r"^(?!.*/leases)"
_HOP = frozenset({"connection", "transfer-encoding", "content-length", "host", "content-encoding"})
_REASONS = {409: "Conflict", 429: "TooManyRequests", 500: "InternalError"}
_NO_LIMIT = aiohttp.ClientTimeout(total=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """What befalls every n-th request of some methods to some paths."""

    status: int = 0
    """Refused so, without reaching the API server."""
    retry_after: int = 0
    delay: float = 0.0
    """Seconds before it is forwarded."""
    answer_lost: bool = False
    """Forwarded, but the connection ends without an answer."""
    methods: frozenset[str] = frozenset()
    paths: str = _BUT_LEASES
    watches: bool = True
    """Whether watches are among them."""
    every: int = 1

    def covers(self, request: web.Request) -> bool:
        """Whether it may befall the request."""
        return (
            (not self.methods or request.method in self.methods)
            and re.search(self.paths, request.path) is not None
            and (self.watches or not _is_watch(request))
        )


class FaultProxy:
    """Forwards everything as one user; faults come and go while it runs."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._port = free_ports(1)[0]
        self._faults: tuple[Fault, ...] = ()
        self._matches: dict[Fault, int] = {}
        self._oldest = 0
        self._watches: set[asyncio.Task[Any]] = set()
        self._loop = asyncio.new_event_loop()
        self._started, self._stop = threading.Event(), asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="fault-proxy")
        self.hits = 0

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self._port}"

    def kubeconfig(self, file: Path) -> Path:
        """A file that makes a client use this proxy."""
        name = "proxy"
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": name, "cluster": {"server": self.url}}],
            "users": [{"name": name, "user": {}}],
            "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
            "current-context": name,
        }
        file.write_text(json.dumps(config))
        return file

    def befall(self, *faults: Fault) -> None:
        """From now on these, and no others."""
        self._matches, self.hits = {}, 0
        self._faults = faults

    def heal(self) -> None:
        """No faults any more."""
        self._faults = ()

    def forget_history(self, version: int) -> None:
        """Watches from this version or an earlier one are answered with 410 Gone."""
        self._oldest = version

    def cut_watches(self) -> None:
        """End the connection of every open watch."""
        self._loop.call_soon_threadsafe(lambda: [task.cancel() for task in self._watches])

    def start(self) -> None:
        """Begin to listen."""
        self._thread.start()
        self._started.wait()

    def close(self) -> None:
        """Stop, and end what is under way."""
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()
        self._loop.close()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._serve())
        self._loop.run_until_complete(_end_of_all())

    async def _serve(self) -> None:
        trust = ssl.create_default_context(cafile=str(self._api.authority))
        trust.load_cert_chain(self._api.user.certificate, self._api.user.key)
        connector = aiohttp.TCPConnector(ssl=trust, limit=0)
        app = web.Application(client_max_size=16 * 1024**2)
        async with aiohttp.ClientSession(connector=connector, timeout=_NO_LIMIT) as session:

            async def handle(request: web.Request) -> web.StreamResponse:
                return await self._handle(session, request)

            app.router.add_route("*", "/{path:.*}", handle)
            runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
            await runner.setup()
            await web.TCPSite(runner, "127.0.0.1", self._port).start()
            self._started.set()
            await self._stop.wait()
            open_watches = list(self._watches)
            for task in open_watches:
                task.cancel()
            await asyncio.gather(*open_watches, return_exceptions=True)
            await runner.cleanup()

    async def _handle(
        self, session: aiohttp.ClientSession, request: web.Request
    ) -> web.StreamResponse:
        fault = self._fault_of(request)
        await asyncio.sleep(fault.delay)
        if fault.status:
            return _refusal(fault)
        try:
            if _is_watch(request):
                return await self._watch(session, request)
            async with self._forwarded(session, request) as answer:
                body = await answer.read()
        except aiohttp.ClientError:
            return _hang_up(request)
        if fault.answer_lost:
            return _hang_up(request)
        return web.Response(status=answer.status, headers=_headers(answer), body=body)

    async def _watch(
        self, session: aiohttp.ClientSession, request: web.Request
    ) -> web.StreamResponse:
        if int(request.query.get("resourceVersion") or self._oldest + 1) <= self._oldest:
            return web.Response(text=_expired(), content_type="application/json")
        task = asyncio.ensure_future(self._stream(session, request))
        self._watches.add(task)
        try:
            return await task
        except asyncio.CancelledError:
            return _hang_up(request)
        finally:
            self._watches.discard(task)

    async def _stream(
        self, session: aiohttp.ClientSession, request: web.Request
    ) -> web.StreamResponse:
        async with self._forwarded(session, request) as answer:
            response = web.StreamResponse(status=answer.status, headers=_headers(answer))
            await response.prepare(request)
            async for chunk in answer.content.iter_any():
                await response.write(chunk)
            return response

    def _forwarded(self, session: aiohttp.ClientSession, request: web.Request) -> Any:
        kept = {key: text for key, text in request.headers.items() if key.lower() not in _HOP}
        return session.request(
            request.method,
            self._api.server + request.raw_path,
            headers=kept | {"Accept-Encoding": "identity"},
            data=request.content if request.body_exists else None,
        )

    def _fault_of(self, request: web.Request) -> Fault:
        """The first that befalls this request."""
        for fault in self._faults:
            if not fault.covers(request):
                continue
            self._matches[fault] = self._matches.get(fault, 0) + 1
            if self._matches[fault] % fault.every == 0:
                self.hits += 1
                return fault
        return Fault()


async def _end_of_all() -> None:
    """Connections that were cut have tasks of their own, and sockets that close a moment later."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    await asyncio.sleep(0.1)


def _is_watch(request: web.Request) -> bool:
    return "watch" in request.query


def _headers(answer: aiohttp.ClientResponse) -> dict[str, str]:
    return {key: text for key, text in answer.headers.items() if key.lower() not in _HOP}


def _refusal(fault: Fault) -> web.Response:
    status = {
        "apiVersion": "v1",
        "kind": "Status",
        "status": "Failure",
        "message": f"a fault of the tests: {fault.status}",
        "reason": _REASONS.get(fault.status, "ServiceUnavailable"),
        "code": fault.status,
    }
    headers = {"Retry-After": str(fault.retry_after)} if fault.retry_after else {}
    return web.json_response(status, status=fault.status, headers=headers)


def _expired() -> str:
    """The one event of a watch whose beginning the API server no longer has."""
    status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Expired"}
    message = {"message": "too old resource version", "code": 410}
    return json.dumps({"type": "ERROR", "object": status | message}) + "\n"


def _hang_up(request: web.Request) -> web.StreamResponse:
    if request.transport is not None:
        request.transport.abort()
    return web.Response()


@contextlib.contextmanager
def faulty(plane: ControlPlane, user: str) -> Iterator[FaultProxy]:
    """A proxy for one user until the end of the block."""
    proxy = FaultProxy(plane.api(user))
    proxy.start()
    try:
        yield proxy
    finally:
        proxy.close()
