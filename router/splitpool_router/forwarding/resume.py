"""Finds a stream again: by its id at the worker that it names, by a request id at any worker."""

import asyncio
import itertools
from collections.abc import Iterable, Iterator

import aiohttp
from aiohttp import web

from splitpool_router.caller import Callers
from splitpool_router.config import Limits
from splitpool_router.errors import HttpError, StreamLost, StreamNotFound
from splitpool_router.fleet.fleet import Fleet
from splitpool_router.fleet.workers import Worker
from splitpool_router.forwarding import headers as h
from splitpool_router.forwarding.completions import REQUEST_ID_KEY
from splitpool_router.forwarding.proxy import AttemptFailed, Outgoing, Proxy, refusal
from splitpool_router.forwarding.relay import Relay, Relayed
from splitpool_router.forwarding.retry import Failure
from splitpool_router.forwarding.streams import Live, LiveRequests, Name, holder, stream_key
from splitpool_router.measuring.metrics import Metrics

_RESULTS = {200: "resumed", 204: "finished", 404: "not_found", 410: "gone"}

# Who asks by a request id alone asks every worker, so many together.
_AT_ONCE = 16


class Resume:
    """Serves GET and DELETE /v1/streams/{id}."""

    def __init__(
        self,
        *,
        fleet: Fleet,
        callers: Callers,
        proxy: Proxy,
        relay: Relay,
        metrics: Metrics,
        live: LiveRequests,
        limits: Limits,
        token: str | None,
    ) -> None:
        self._fleet = fleet
        self._callers = callers
        self._proxy = proxy
        self._relay = relay
        self._metrics = metrics
        self._live = live
        self._limits = limits
        self._token = token

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """The rest of the stream, or the worker's word that there is none."""
        caller = self._callers.identify(request.headers).id
        wanted = request.match_info["id"]
        found = self._live.find(caller, wanted)
        try:
            answer = await self._answer(request, caller, wanted, found)
        except HttpError as error:
            self._count(request, error.code if error.code == "worker_lost" else "not_found")
            raise
        self._count(request, _RESULTS.get(answer.status, str(answer.status)))
        if request.method == "DELETE" or found is None:
            if found is not None and answer.status < 300:
                self._live.forget(found[0])
            return (await self._pass_on(request, answer)).response
        return await self._rejoin(request, answer, found)

    async def _rejoin(
        self, request: web.Request, answer: aiohttp.ClientResponse, found: tuple[Name, Live]
    ) -> web.StreamResponse:
        """Reads on for a live request; its id stays taken while somebody reads."""
        name, live = found
        window = self._window(live)
        with self._live.reading(name, live, window=window):
            try:
                with live.holding():
                    return (await self._pass_on(request, answer)).response
            finally:
                self._fleet.pump()

    async def _pass_on(self, request: web.Request, answer: aiohttp.ClientResponse) -> Relayed:
        return await self._relay.pass_on(
            request,
            answer,
            ours={h.REQUEST_ID: request[REQUEST_ID_KEY]},
            idle_limit=self._limits.idle,
            on_first=lambda times, arrived, writing: None,
        )

    async def _answer(
        self, request: web.Request, caller: str, wanted: str, found: tuple[Name, Live] | None
    ) -> aiohttp.ClientResponse:
        key = stream_key(wanted)
        if key is None:
            return await self._ask_in_turn(request, caller, found)
        worker = holder(self._fleet.workers.values(), key)
        if worker is None:
            raise StreamLost("no worker holds this stream any more: send the request again")
        try:
            return await self._ask(request, caller, worker)
        except AttemptFailed as failed:
            if failed.failure is not Failure.NOT_SENT:
                raise refusal(failed) from failed
            raise StreamLost("the stream's worker is gone: send the request again") from failed

    async def _ask_in_turn(
        self, request: web.Request, caller: str, found: tuple[Name, Live] | None
    ) -> aiohttp.ClientResponse:
        """The first answer that is not 404; an unreachable worker may hold it, a gone one not."""
        silent: AttemptFailed | None = None
        candidates = self._candidates(found)
        count = _AT_ONCE if found is None else 1
        while group := list(itertools.islice(candidates, count)):
            count = _AT_ONCE
            answer, failed = await self._ask_all(request, caller, group)
            if answer is not None:
                return answer
            silent = failed or silent
        if silent is not None:
            raise refusal(silent)
        if found is not None:
            raise StreamLost("the request's worker is gone: send the request again")
        raise StreamNotFound("no worker knows a stream of this id of yours")

    async def _ask_all(
        self, request: web.Request, caller: str, workers: Iterable[Worker]
    ) -> tuple[aiohttp.ClientResponse | None, AttemptFailed | None]:
        """The answer of the worker that has it, or how one failed that may have it."""
        asked = [asyncio.create_task(self._ask(request, caller, worker)) for worker in workers]
        answer: aiohttp.ClientResponse | None = None
        silent: AttemptFailed | None = None
        try:
            await asyncio.wait(asked)
            for task in asked:
                error = task.exception()
                if error is None and task.result().status != 404:
                    answer = answer or task.result()
                elif isinstance(error, AttemptFailed):
                    silent = error if error.failure is not Failure.NOT_SENT else silent
                elif error is not None:
                    raise error
            return answer, silent
        finally:
            for task in asked:
                if not task.cancel() and task.exception() is None and task.result() is not answer:
                    task.result().close()

    def _candidates(self, found: tuple[Name, Live] | None) -> Iterator[Worker]:
        """Every worker once: the one that got the request, then those that answer."""
        known = found[1].worker if found else None
        workers = self._fleet.workers.values()
        return iter(sorted(workers, key=lambda each: (each is not known, not each.reachable)))

    async def _ask(
        self, request: web.Request, caller: str, worker: Worker
    ) -> aiohttp.ClientResponse:
        ours = {h.REQUEST_ID: request[REQUEST_ID_KEY], h.CALLER: caller}
        if self._token:
            ours[h.TOKEN] = self._token
        outgoing = Outgoing(
            method=request.method,
            path=request.rel_url.raw_path_qs,
            headers=h.upstream(request.headers, forward=("Last-Event-ID",), ours=ours),
        )
        return await self._proxy.send(worker, outgoing, limits=self._limits)

    def _window(self, live: Live) -> float:
        pool = self._fleet.pools.get(live.worker.endpoint.pool_key) if live.worker else None
        return pool.resume_window if pool else 0.0

    def _count(self, request: web.Request, result: str) -> None:
        if request.method == "GET":
            self._metrics.resumes.labels(result).inc()
