"""Asks workers and routers over HTTP: what they report, and whether a token comes back."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import aiohttp

from splitpool_operator.cluster.routers import ERRORS, Routers, url
from splitpool_operator.declaration.pool import ClassName, InferencePool
from splitpool_operator.rendering.container import PORT
from splitpool_operator.reporting import reasons
from splitpool_operator.reporting.enforcement import Vram, WorkerReport
from splitpool_operator.reporting.observed import PodState
from splitpool_operator.reporting.view import Finding

_ASK_SECONDS = aiohttp.ClientTimeout(total=3, sock_connect=1)
_TOKEN_SECONDS = aiohttp.ClientTimeout(total=30)
# What a worker reports moves with its traffic and is read again this much later.
_REPORT_SECONDS = 240.0
_SILENCE_SECONDS = 4.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reported:
    until: float
    report: WorkerReport | None


class HttpProbe:
    """Asks over one HTTP session, and not twice for the same."""

    def __init__(
        self,
        http: aiohttp.ClientSession,
        routers: Routers | None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._http = http
        self._routers = routers
        self._clock = clock
        self._reports: dict[str, _Reported] = {}
        self._proven: dict[tuple[str, str], tuple[str, int, frozenset[str]]] = {}

    async def workers(self, pods: Sequence[PodState]) -> Mapping[str, WorkerReport]:
        """What ready workers report, by the uid of their pod."""
        now = self._clock()
        old = [pod for pod in pods if self._is_old(pod.uid, now)]
        found = await asyncio.gather(*(self._report(pod) for pod in old))
        for pod, report in zip(old, found, strict=True):
            self._remember(pod.uid, report, now)
        known = {pod.uid: self._reports[pod.uid].report for pod in pods}
        self._forget(now)
        return {uid: report for uid, report in known.items() if report is not None}

    async def serving(
        self, pool: InferencePool, pods: Sequence[PodState], classes: Sequence[ClassName]
    ) -> Finding | None:
        """Why a generation with these workers does not serve; one that did is not asked again.

        A class at zero is not asked: that would wake it.
        """
        if self._routers is None:
            return None
        uids = frozenset(pod.uid for pod in pods)
        state = (pool.metadata.uid, pool.metadata.generation, uids)
        if self._proven.get(pool.key) == state:
            return None
        trouble = await self._routed(self._routers, pool, classes)
        if trouble is None:
            self._proven[pool.key] = state
        return trouble

    def forget(self, key: tuple[str, str]) -> None:
        """A pool of that namespace and name is gone."""
        self._proven.pop(key, None)

    async def _routed(
        self, known: Routers, pool: InferencePool, classes: Sequence[ClassName]
    ) -> Finding | None:
        """Every router knows the generation, and one of them brings back a token of each class."""
        try:
            routers = await known.urls()
        except OSError as error:
            text = f"no router was found: {error}"
            return Finding(reason=reasons.ROUTER_BEHIND, message=text)
        for each in routers:
            if not _knows(await known.pools(each), pool):
                text = "a router has not seen this generation and its workers yet"
                return Finding(reason=reasons.ROUTER_BEHIND, message=text)
        for name in classes:
            if not await self._token(known, routers[0], pool.spec.model.name, name):
                text = f"{name}: no token came back through the router"
                return Finding(reason=reasons.PROBE_FAILED, message=text)
        return None

    async def _token(self, known: Routers, url: str, model: str, name: str) -> bool:
        body = {"model": model, "prompt": "Hello", "max_tokens": 1}
        try:
            headers = {"X-Splitpool-Class": name, **known.credential()}
            async with self._http.post(
                f"{url}/v1/completions", json=body, headers=headers, timeout=_TOKEN_SECONDS
            ) as answer:
                return bool(answer.status == 200 and (await answer.json())["choices"])
        except ERRORS:
            return False

    async def _report(self, pod: PodState) -> WorkerReport | None:
        try:
            async with self._http.get(f"{url(pod.ip, PORT)}/ready", timeout=_ASK_SECONDS) as answer:
                return _read_report(await answer.json())
        except ERRORS:
            return None

    def _is_old(self, uid: str, now: float) -> bool:
        known = self._reports.get(uid)
        return known is None or now > known.until

    def _remember(self, uid: str, report: WorkerReport | None, now: float) -> None:
        """Silence is asked again soon, and until then the worker's last words hold."""
        if report is not None:
            self._reports[uid] = _Reported(until=now + _REPORT_SECONDS, report=report)
            return
        known = self._reports.get(uid)
        last = None if known is None else known.report
        self._reports[uid] = _Reported(until=now + _SILENCE_SECONDS, report=last)

    def _forget(self, now: float) -> None:
        """Pods that nobody has asked about for long are gone."""
        for uid, known in list(self._reports.items()):
            if now - known.until > 3 * _REPORT_SECONDS:
                del self._reports[uid]


def _knows(shown: Sequence[Mapping[str, Any]], pool: InferencePool) -> bool:
    """Whether a router knows this generation of the pool."""
    try:
        mine = [each for each in shown if (each["namespace"], each["name"]) == pool.key]
        return any(each["generation"] >= pool.metadata.generation for each in mine)
    except (KeyError, TypeError):
        return False


def _read_report(raw: Mapping[str, Any]) -> WorkerReport:
    vram = {
        name: Vram(**{key: int(part[key]) for key in ("quota", "weights", "kv", "used")})
        for name, part in raw["vram"].items()
    }
    return WorkerReport(
        enforcement=str(raw["enforcement"]), seen=str(raw["fence"]["seen"]), vram=vram
    )
