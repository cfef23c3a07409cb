"""Asks batch workers to make room while interactive requests wait; the asking lapses by itself."""

import asyncio

import aiohttp

from splitpool_router.fleet.fleet import Fleet
from splitpool_router.fleet.workers import Worker
from splitpool_router.forwarding.headers import TOKEN
from splitpool_router.placing.yields import TTL_MS, Pressing, Pressure, who_yields

_REFRESH = 0.2
_TIMEOUT = aiohttp.ClientTimeout(total=0.5)


class Yielding:
    """Sends PUT /internal/yield at once when pressure comes, then every 200 ms while it lasts."""

    def __init__(self, fleet: Fleet, session: aiohttp.ClientSession, *, token: str | None) -> None:
        self.pressure = Pressure()
        self._fleet = fleet
        self._session = session
        self._headers = {TOKEN: token} if token else {}
        self._wake = asyncio.Event()
        self._sending: set[asyncio.Task[None]] = set()

    def wake(self) -> None:
        """Somebody presses."""
        self._wake.set()

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self._wake.wait()
            devices = self.pressure.devices(self._fleet.clock())
            if not devices:
                self._wake.clear()
                continue
            for worker, budget in who_yields(self._fleet.workers.values(), devices):
                task = asyncio.create_task(self._ask(worker, budget))
                self._sending.add(task)
                task.add_done_callback(self._sending.discard)
            await asyncio.sleep(_REFRESH)

    async def _ask(self, worker: Worker, budget: int) -> None:
        url = f"{worker.endpoint.url}/internal/yield"
        wish = {"tokenBudget": budget, "ttlMs": TTL_MS}
        try:
            async with self._session.put(url, json=wish, headers=self._headers, timeout=_TIMEOUT):
                pass
        except (aiohttp.ClientError, OSError, TimeoutError):
            # A courtesy: a worker that cannot be asked is the prober's business.
            return


def pressing_on(workers: list[Worker]) -> Pressing:
    """A request that may go to any of these."""
    return Pressing(workers=[worker for worker in workers if worker.serving])
