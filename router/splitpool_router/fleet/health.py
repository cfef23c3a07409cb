"""Whether each worker answers, and what it says about itself: a probe of /ready per worker."""

import asyncio
import logging

import aiohttp
from pydantic import ValidationError

from splitpool_router.fleet.breaker import Breaker
from splitpool_router.fleet.fleet import Fleet, WorkerKey
from splitpool_router.fleet.workers import Report, Worker

log = logging.getLogger(__name__)

_PERIOD = 0.5
_PERIOD_NOT_READY = 0.15
# Of all workers together; each costs the event loop half a millisecond.
_PROBES_PER_SECOND = 200.0
_TIMEOUT = aiohttp.ClientTimeout(total=5, sock_connect=2)
# A busy machine answers late; a worker that is gone refuses at once.
_LATE_PROBES = 3


class Prober:
    """Keeps one probing task per worker of the fleet."""

    def __init__(self, fleet: Fleet, session: aiohttp.ClientSession) -> None:
        self._fleet = fleet
        self._session = session
        self._tasks: dict[WorkerKey, asyncio.Task[None]] = {}

    def follow(self) -> None:
        """Probes the workers that the fleet has now, and no others."""
        for key in self._tasks.keys() - self._fleet.workers.keys():
            self._tasks.pop(key).cancel()
        for key, worker in self._fleet.workers.items():
            if key not in self._tasks:
                self._tasks[key] = task = asyncio.create_task(self._probe_for_ever(worker))
                task.add_done_callback(_complain)

    async def stop(self) -> None:
        """Ends all probing."""
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        self._tasks.clear()

    async def _probe_for_ever(self, worker: Worker) -> None:
        late = 0
        while True:
            was = worker.serving
            try:
                report = await self._ask(worker)
            except TimeoutError:
                late += 1
                if late >= _LATE_PROBES:
                    worker.reachable = False
            except (aiohttp.ClientError, OSError, ValueError):
                worker.reachable = False
            else:
                late = 0
                _accept(worker, report)
            if worker.serving != was:
                log.info("worker %s serving=%s", worker.name, worker.serving)
            self._fleet.pump_for(worker)
            await asyncio.sleep(self._pause(worker))

    def _pause(self, worker: Worker) -> float:
        """The more workers there are, the less often each is asked."""
        period = _PERIOD if worker.serving else _PERIOD_NOT_READY
        return max(period, len(self._tasks) / _PROBES_PER_SECOND)

    async def _ask(self, worker: Worker) -> Report:
        url = f"{worker.endpoint.url}/ready"
        async with self._session.get(url, timeout=_TIMEOUT) as response:
            try:
                report = Report.model_validate_json(await response.read())
            except ValidationError as error:
                raise ValueError(f"worker {worker.name}: /ready is not understood") from error
        if not report.of(worker.endpoint):
            raise ValueError(f"{worker.name}: {report.name} answers at its address")
        return report


def _complain(probe: asyncio.Task[None]) -> None:
    if not probe.cancelled():
        log.critical("the probe of a worker ended", exc_info=probe.exception())


def _accept(worker: Worker, report: Report) -> None:
    if not worker.reachable:
        worker.breaker = Breaker()
    worker.reachable = True
    worker.report = report
