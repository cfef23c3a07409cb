"""The router's routes, and the parts behind them wired together."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from aiohttp import web

from splitpool_router.caller import Caller, Callers
from splitpool_router.config import MAX_BODY_BYTES, MAX_HELD_BYTES, Config
from splitpool_router.errors import (
    HttpError,
    MethodNotAllowed,
    NoReadyWorker,
    RouteNotFound,
)
from splitpool_router.fleet.discovery import Discovery, NoSnapshot
from splitpool_router.fleet.fleet import Fleet
from splitpool_router.fleet.health import Prober
from splitpool_router.fleet.pools import Pool
from splitpool_router.fleet.workers import Worker
from splitpool_router.forwarding import headers as h
from splitpool_router.forwarding.ask import model_of
from splitpool_router.forwarding.completions import REQUEST_ID_KEY, Completions
from splitpool_router.forwarding.intake import Intake
from splitpool_router.forwarding.proxy import AttemptFailed, Outgoing, Proxy, refusal, session
from splitpool_router.forwarding.relay import Relay
from splitpool_router.forwarding.resume import Resume
from splitpool_router.forwarding.streams import LiveRequests
from splitpool_router.forwarding.watchdog import Watchdog
from splitpool_router.measuring.metrics import Metrics
from splitpool_router.placing.classify import LatencyClass
from splitpool_router.placing.yielding import Yielding
from splitpool_serving.large_bodies import LargeBodies

log = logging.getLogger(__name__)


Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What the routes stand on."""

    config: Config
    fleet: Fleet
    callers: Callers
    intake: Intake
    metrics: Metrics
    proxy: Proxy
    relay: Relay
    watchdog: Watchdog
    prober: Prober
    yielding: Yielding
    live: LiveRequests
    discovery: Discovery


@asynccontextmanager
async def running(config: Config, discovery: Discovery) -> AsyncIterator["Router"]:
    """A router whose fleet follows `discovery` until the block is left."""
    fleet, large = Fleet(), LargeBodies()
    async with session() as client:
        watchdog = Watchdog(period=config.sweep_period, clock=fleet.clock)
        parts = Parts(
            config=config,
            fleet=fleet,
            callers=Callers(secret=config.caller_key, keys=config.api_keys),
            intake=Intake(
                body_limit=MAX_BODY_BYTES,
                total_limit=MAX_HELD_BYTES,
                seconds=config.upload_limit,
                large=large,
            ),
            metrics=Metrics(fleet, age=discovery.age),
            proxy=Proxy(client),
            relay=Relay(watchdog, stall_limit=config.stall_limit),
            watchdog=watchdog,
            prober=Prober(fleet, client),
            yielding=Yielding(fleet, client, token=config.internal_token),
            live=LiveRequests(fleet.clock, runs=fleet.runs),
            discovery=discovery,
        )
        duties = (watchdog.run(), parts.yielding.run(), _follow(parts, discovery))
        tasks = [asyncio.create_task(duty) for duty in duties]
        for task in tasks:
            task.add_done_callback(_complain)
        try:
            yield Router(parts)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await parts.prober.stop()
            large.close()


def _complain(duty: asyncio.Task[None]) -> None:
    """A duty never ends by itself: without it the router would work from stale knowledge."""
    if not duty.cancelled():
        log.critical("a duty of the router ended", exc_info=duty.exception())


async def _follow(parts: Parts, discovery: Discovery) -> None:
    """Applies every snapshot; what cannot be read leaves the last good one in force."""
    shown = (-1, -1)
    while True:
        try:
            snapshot = await discovery.read()
        except NoSnapshot as error:
            log.warning("no snapshot: %s", error)
        else:
            parts.fleet.apply(snapshot)
            parts.prober.follow()
            counts = (len(snapshot.pools), len(snapshot.workers))
            if counts != shown:
                log.info("generation %d: %d pools, %d workers", snapshot.generation, *counts)
                shown = counts
        await discovery.changed()


class Router:
    """The routes."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._fleet = parts.fleet
        self.active = 0
        self.idle = asyncio.Event()
        self.idle.set()

    def app(self) -> web.Application:
        """The aiohttp application."""
        parts, config = self._parts, self._parts.config
        completions = Completions(
            fleet=parts.fleet,
            callers=parts.callers,
            intake=parts.intake,
            proxy=parts.proxy,
            relay=parts.relay,
            metrics=parts.metrics,
            live=parts.live,
            yielding=parts.yielding,
            limits=config.limits,
            token=config.internal_token,
        )
        resume = Resume(
            fleet=parts.fleet,
            callers=parts.callers,
            proxy=parts.proxy,
            relay=parts.relay,
            metrics=parts.metrics,
            live=parts.live,
            limits=config.limits[LatencyClass.INTERACTIVE],
            token=config.internal_token,
        )
        app = web.Application(middlewares=[self._edge])
        app.on_response_prepare.append(_sign)
        app.add_routes(
            [
                web.post("/v1/chat/completions", completions.handle),
                web.post("/v1/completions", completions.handle),
                web.get("/v1/streams/{id}", resume.handle, allow_head=False),
                web.delete("/v1/streams/{id}", resume.handle),
                web.get("/v1/models", self._models),
                web.get("/v1/models/{model:.+}", self._model),
                web.post("/tokenize", self._tokenize),
                web.get("/health", self._health),
                web.get("/ready", self._ready),
                web.get("/metrics", self._metrics),
                web.get("/internal/pools", self._pools),
            ]
        )
        return app

    def drain(self) -> None:
        """No new requests; the longest declared limit for those that run."""
        self._fleet.shut_down()

    @property
    def drain_limit(self) -> float:
        """Seconds that running requests get."""
        specs = [spec for pool in self._fleet.pools.values() for spec in pool.classes.values()]
        declared = max((spec.drain_seconds for spec in specs), default=0.0)
        return min(declared, self._parts.config.drain_limit)

    async def cut(self, *, patience: float = 1.0) -> None:
        """Ends what still waits or runs, each stream with an error event."""
        self._fleet.turn_away()
        self._parts.watchdog.end_all("shutting_down")
        try:
            await asyncio.wait_for(self.idle.wait(), patience)
        except TimeoutError:
            log.warning("%d requests were cut", self.active)

    @web.middleware
    async def _edge(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Names and counts every request; turns refusals into OpenAI error objects."""
        request[REQUEST_ID_KEY], _ = h.request_id(request.headers)
        self.active += 1
        self.idle.clear()
        try:
            response = await handler(request)
        except HttpError as error:
            response = _refusal(error)
        except web.HTTPException as error:
            response = _refusal(_translated(error))
        except (ConnectionError, asyncio.CancelledError):
            raise
        except Exception:
            log.exception("a request failed")
            response = _refusal(HttpError("the router failed on this request"))
        finally:
            self.active -= 1
            if not self.active:
                self.idle.set()
        return response

    async def _models(self, request: web.Request) -> web.Response:
        self._parts.callers.identify(request.headers)
        listed = [_card(pool) for pool in self._fleet.models()]
        return web.json_response({"object": "list", "data": listed})

    async def _model(self, request: web.Request) -> web.Response:
        self._parts.callers.identify(request.headers)
        return web.json_response(_card(self._fleet.pool_of(request.match_info["model"])))

    async def _tokenize(self, request: web.Request) -> web.StreamResponse:
        """Any worker of the model answers; it costs no place in a queue."""
        self._fleet.refuse_when_shutting_down()
        caller = self._parts.callers.identify(request.headers)
        async with self._parts.intake.body(request) as body:
            return await self._tokenized(request, caller, body)

    async def _tokenized(
        self, request: web.Request, caller: Caller, body: bytes
    ) -> web.StreamResponse:
        pool = self._fleet.pool_of(await self._parts.intake.parsed(body, model_of))
        ours = {h.REQUEST_ID: request[REQUEST_ID_KEY], h.CALLER: caller.id}
        if self._parts.config.internal_token:
            ours[h.TOKEN] = self._parts.config.internal_token
        outgoing = Outgoing(
            method="POST",
            path=request.rel_url.raw_path_qs,
            headers=h.upstream(request.headers, forward=pool.forward_headers, ours=ours),
            body=body,
        )
        limits = self._parts.config.limits[LatencyClass.INTERACTIVE]
        try:
            answer = await self._parts.proxy.send(self._any_worker(pool), outgoing, limits=limits)
        except AttemptFailed as failed:
            raise refusal(failed) from failed
        relayed = await self._parts.relay.pass_on(
            request,
            answer,
            ours={h.REQUEST_ID: request[REQUEST_ID_KEY]},
            idle_limit=limits.idle,
            on_first=lambda times, arrived, writing: None,
        )
        return relayed.response

    def _any_worker(self, pool: Pool) -> Worker:
        serving = [worker for worker in self._fleet.workers_of(pool.key) if worker.serving]
        if not serving:
            raise NoReadyWorker(f"pool {pool.key.name} has no ready worker", retry_after=5)
        return min(serving, key=lambda worker: sum(worker.outstanding.values()))

    async def _health(self, request: web.Request) -> web.Response:
        return web.json_response({"status": "ok"})

    async def _ready(self, request: web.Request) -> web.Response:
        """A router whose source is away routes by what it knows, and says how old that is."""
        known = self._fleet.generation is not None
        ready = known and not self._fleet.shutting_down
        age = self._parts.discovery.age()
        state = {
            "ready": ready,
            "draining": self._fleet.shutting_down,
            "generation": self._fleet.generation,
            "discoveryAgeSeconds": None if age is None else round(age, 1),
        }
        return web.json_response(state, status=200 if ready else 503)

    async def _metrics(self, request: web.Request) -> web.Response:
        return web.Response(
            body=self._parts.metrics.render(),
            headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"},
        )

    async def _pools(self, request: web.Request) -> web.Response:
        seen = {
            "generation": self._fleet.generation,
            "pools": [self._pool_state(pool) for pool in self._fleet.pools.values()],
        }
        return web.json_response(seen)

    def _pool_state(self, pool: Pool) -> dict[str, object]:
        """What the operator reads: the generation seen, and the queues of each class."""
        classes = {}
        for cls in pool.classes:
            queue = self._fleet.queue_of(pool, cls)
            classes[cls.value] = {
                "workers": len(queue.workers),
                "ready": queue.ready_workers,
                "waiting": queue.waiting_requests,
                "waitingTokens": queue.waiting_tokens,
                "outstandingTokens": queue.outstanding_tokens,
                "limitTokens": queue.limit_tokens,
            }
        return {
            "namespace": pool.key.namespace,
            "name": pool.key.name,
            "generation": pool.generation,
            "model": pool.model,
            "serving": pool in self._fleet.models(),
            "classes": classes,
        }


async def _sign(request: web.Request, response: web.StreamResponse) -> None:
    """Every answer names its request, and the program rather than its libraries."""
    response.headers.setdefault(h.REQUEST_ID, request.get(REQUEST_ID_KEY, ""))
    response.headers["Server"] = "splitpool"


def _card(pool: Pool) -> dict[str, object]:
    created = max(int(pool.created.timestamp()), 0) if pool.created.year > 1970 else 0
    return {"id": pool.model, "object": "model", "created": created, "owned_by": "splitpool"}


def _refusal(error: HttpError) -> web.Response:
    response = web.Response(
        status=error.status,
        body=error.body(),
        headers={**error.headers(), "Content-Type": "application/json"},
    )
    if error.extra_headers.get("Connection") == "close":
        response.force_close()
    return response


def _translated(error: web.HTTPException) -> HttpError:
    """aiohttp's own refusals in our words."""
    if isinstance(error, web.HTTPMethodNotAllowed):
        allowed = ", ".join(sorted(error.allowed_methods))
        return MethodNotAllowed(
            f"{error.method} is not allowed here; allowed: {allowed}", headers={"Allow": allowed}
        )
    if error.status == 404:
        return RouteNotFound("no such path")
    log.warning("aiohttp refused a request with %d", error.status)
    return HttpError(error.reason)
