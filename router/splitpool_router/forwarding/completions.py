"""The life of a completion request: class, permit, call, answer."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

from aiohttp import web

from splitpool_router.caller import Caller, Callers
from splitpool_router.config import Limits
from splitpool_router.errors import (
    BadRequest,
    HttpError,
    NoReadyWorker,
    QueueFull,
    WorkerUnreachable,
)
from splitpool_router.fleet.fleet import Fleet
from splitpool_router.fleet.pools import Pool, ResumeMode
from splitpool_router.forwarding import ask as asks
from splitpool_router.forwarding import headers as h
from splitpool_router.forwarding import sse
from splitpool_router.forwarding.ask import Ask
from splitpool_router.forwarding.intake import Intake
from splitpool_router.forwarding.proxy import Outgoing, Proxy
from splitpool_router.forwarding.relay import Relay, Relayed
from splitpool_router.forwarding.streams import Live, LiveRequests
from splitpool_router.measuring.metrics import Metrics
from splitpool_router.measuring.trip import Trip, clock
from splitpool_router.placing.admission import Claim, Permit
from splitpool_router.placing.classify import (
    CLASS_HEADER,
    OBJECTIVE_HEADERS,
    LatencyClass,
    UnknownClass,
    Wishes,
    clamp,
    classify,
)
from splitpool_router.placing.yielding import Yielding
from splitpool_router.placing.yields import Pressing

REQUEST_ID_KEY = web.RequestKey("request_id", str)


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """A request that can be routed."""

    pool: Pool
    cls: LatencyClass
    caller: Caller
    ask: Ask
    body: bytes
    request_id: str
    resumable: bool


class Completions:
    """Serves POST /v1/chat/completions and /v1/completions."""

    def __init__(
        self,
        *,
        fleet: Fleet,
        callers: Callers,
        intake: Intake,
        proxy: Proxy,
        relay: Relay,
        metrics: Metrics,
        live: LiveRequests,
        yielding: Yielding,
        limits: Mapping[LatencyClass, Limits],
        token: str | None,
    ) -> None:
        self._fleet = fleet
        self._callers = callers
        self._intake = intake
        self._proxy = proxy
        self._relay = relay
        self._metrics = metrics
        self._live = live
        self._yielding = yielding
        self._limits = limits
        self._token = token

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """The answer; every request is counted once, whatever becomes of it."""
        trip = Trip(self._metrics)
        try:
            relayed = await self._serve(request, trip)
        except HttpError as error:
            trip.finished(error.status, error.code)
            raise
        except (asyncio.CancelledError, ConnectionError):
            trip.left()
            raise
        except Exception:
            trip.finished(500, "internal_error")
            raise
        trip.finished(relayed.response.status, relayed.reason)
        return relayed.response

    async def _serve(self, request: web.Request, trip: Trip) -> Relayed:
        self._fleet.refuse_when_shutting_down()
        caller = self._callers.identify(request.headers)
        async with self._intake.body(request) as body:
            trip.received = clock()
            order = self._order(request, body, await self._intake.parsed(body, asks.parse), caller)
            trip.parsed = clock()
            return await self._run(request, order, trip)

    async def _run(self, request: web.Request, order: Order, trip: Trip) -> Relayed:
        prompt = order.ask.prompt_estimate(self._fleet.estimator(order.pool.model))
        trip.routed(order.pool, order.cls, order.ask, prompt)
        own_id = request.headers.get(h.REQUEST_ID) == order.request_id
        if not (order.resumable and own_id):
            return await self._admitted(request, order, trip, Live())
        name = (order.caller.id, order.request_id)
        with self._live.hold(name, window=order.pool.resume_window) as live:
            return await self._admitted(request, order, trip, live)

    def _order(self, request: web.Request, body: bytes, ask: Ask, caller: Caller) -> Order:
        pool = self._fleet.pool_of(ask.model)
        wishes = Wishes(
            header=request.headers.get(CLASS_HEADER),
            objective=_objective(request.headers),
            service_tier=ask.service_tier,
            stream=ask.stream,
        )
        try:
            cls = classify(wishes, objectives=pool.objectives, default=pool.default_class)
        except UnknownClass as error:
            raise BadRequest(str(error), param=CLASS_HEADER) from None
        return Order(
            pool=pool,
            cls=clamp(cls, caller.highest),
            caller=caller,
            ask=ask,
            body=body,
            request_id=request[REQUEST_ID_KEY],
            resumable=_resumable(pool, ask, wanted=h.wants_resume(request.headers)),
        )

    async def _admitted(
        self, request: web.Request, order: Order, trip: Trip, live: Live
    ) -> Relayed:
        pressing = Pressing(workers=self._fleet.queue_of(order.pool, order.cls).workers)
        if order.cls is LatencyClass.INTERACTIVE:
            self._yielding.pressure.press(pressing)
            self._yielding.wake()
        try:
            waiting = clock()
            cls, permit = await self._permit(order)
            trip.queue = clock() - waiting
            with permit:
                if cls is not order.cls:
                    trip.spilled(cls)
                self._press_on_one(pressing, permit, order)
                return await self._call(request, order, cls, permit, trip, live, pressing)
        finally:
            self._yielding.pressure.relieve(pressing)

    async def _permit(self, order: Order) -> tuple[LatencyClass, Permit]:
        """A permit of the order's class, or of batch where the pool lets interactive spill."""
        claim = self._claim(order)
        queue = self._fleet.queue_of(order.pool, order.cls)
        try:
            return order.cls, await queue.permit(claim)
        except (QueueFull, NoReadyWorker):
            if not order.pool.spill_to_batch or order.cls is LatencyClass.BATCH:
                raise
        queue = self._fleet.queue_of(order.pool, LatencyClass.BATCH)
        return LatencyClass.BATCH, await queue.permit(claim)

    def _claim(self, order: Order) -> Claim:
        reports = (w.report for w in self._fleet.workers_of(order.pool.key))
        lengths = (r.max_model_len for r in reports if r is not None and r.max_model_len)
        estimator = self._fleet.estimator(order.pool.model)
        return Claim(
            cost=order.ask.cost(estimator, max_model_len=next(lengths, None)),
            prefix=order.caller.id.encode() + order.ask.prefix,
        )

    def _press_on_one(self, pressing: Pressing, permit: Permit, order: Order) -> None:
        pressing.workers = (permit.worker,)
        if not order.ask.stream:
            # Its first token is invisible from here; it presses as long as one should take.
            target = order.pool.classes[order.cls].ttft_p99_ms or 500.0
            pressing.until = self._fleet.clock() + target / 1000

    async def _call(
        self,
        request: web.Request,
        order: Order,
        cls: LatencyClass,
        permit: Permit,
        trip: Trip,
        live: Live,
        pressing: Pressing,
    ) -> Relayed:
        limits = self._limits[cls]
        answer = await self._proxy.call(
            permit,
            self._outgoing(request, order, cls),
            trip,
            limits=limits,
            stream=order.ask.stream,
        )
        pressing.workers = (permit.worker,)
        stream_id = answer.headers.get(h.STREAM_ID)
        live.at(permit.worker, stream_id, cls=cls, cost=permit.claim.cost)
        if answer.status == 401:
            answer.close()
            raise WorkerUnreachable("the worker does not accept this router's token")

        def first(times: Mapping[str, float] | None, arrived: float, writing: float) -> None:
            self._yielding.pressure.relieve(pressing)
            trip.first_content(times, arrived=arrived, writing=writing)

        ours = {h.REQUEST_ID: order.request_id, CLASS_HEADER: cls.value}
        events = answer.content_type == "text/event-stream"
        trip.streaming(+events)
        try:
            relayed = await self._relay.pass_on(
                request, answer, ours=ours, idle_limit=limits.idle, on_first=first
            )
        finally:
            trip.streaming(-events)
        self._learn(order, relayed)
        return relayed

    def _outgoing(self, request: web.Request, order: Order, cls: LatencyClass) -> Outgoing:
        ours = {
            h.REQUEST_ID: order.request_id,
            h.CALLER: order.caller.id,
            CLASS_HEADER: cls.value,
        }
        if order.resumable:
            ours[h.RESUMABLE] = "true"
        if self._token:
            ours[h.TOKEN] = self._token
        forward = order.pool.forward_headers
        return Outgoing(
            method="POST",
            path=request.rel_url.raw_path_qs,
            headers=h.upstream(request.headers, forward=forward, ours=ours),
            body=order.body,
        )

    def _learn(self, order: Order, relayed: Relayed) -> None:
        """Corrects the estimates by what the worker counted."""
        if relayed.reason != "ok":
            return
        counted = sse.usage(relayed.tail)
        estimator = self._fleet.estimator(order.pool.model)
        ask = order.ask
        if "prompt_tokens" in counted and not ask.prompt_tokens:
            estimator.learn_prompt(text_bytes=ask.text_bytes, tokens=counted["prompt_tokens"])
        if "completion_tokens" in counted and ask.max_tokens is None:
            estimator.learn_answer(counted["completion_tokens"] // ask.copies)


def _objective(headers: Mapping[str, str]) -> str | None:
    return next((headers[name] for name in OBJECTIVE_HEADERS if name in headers), None)


def _resumable(pool: Pool, ask: Ask, *, wanted: bool) -> bool:
    """Whether the stream outlives its connection; several answers at once cannot."""
    if not ask.stream or pool.resume_mode is ResumeMode.OFF:
        return False
    if ask.copies > 1:
        if wanted:
            raise BadRequest(
                f"a stream of {ask.copies} answers is not resumable: send n = 1 and one prompt,"
                f" or no {h.RESUMABLE}",
                param="n",
            )
        return False
    return wanted or pool.resume_mode is ResumeMode.ALWAYS
