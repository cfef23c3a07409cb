"""Takes keys off the queue and reconciles them: several pools together, each once at a time."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable

from splitpool_operator.cluster.kube import Closing, Refused, Unavailable
from splitpool_operator.cluster.workqueue import Key, WorkQueue

log = logging.getLogger("splitpool_operator")

# Events come in bursts, a write among the others: one look at the end sees them all.
_GATHER_SECONDS = 0.1
# Spread over the time of a few requests, so that a restart with many pools is no burst.
_CONCURRENCY = 8
# Each request has its own limit; this one is for a reconcile that none of them ends.
_LONGEST_SECONDS = 900.0

Reconcile = Callable[[Key], Awaitable[float | None]]
# Is told what became of each: done, failed or closing; and the seconds that it took.
Told = Callable[[str, float], None]


class Work:
    """The queue with its workers."""

    def __init__(
        self,
        reconcile: Reconcile,
        clock: Callable[[], float] = time.monotonic,
        *,
        told: Told = lambda result, seconds: None,
    ) -> None:
        self._reconcile = reconcile
        self._told = told
        self._clock = clock
        self._queue = WorkQueue()
        self._changed = asyncio.Event()
        self._free = asyncio.Semaphore(_CONCURRENCY)
        self._started: dict[Key, float] = {}
        self._progress = clock()

    def add(self, key: Key, delay: float = _GATHER_SECONDS) -> None:
        """Have a pool looked at."""
        self._queue.add(key, self._clock() + delay)
        self._changed.set()

    def due(self) -> int:
        """How many pools are to be looked at, now or later."""
        return len(self._queue)

    def standstill(self) -> float:
        """For how many seconds a pool is due or worked on without any being done.

        Many pools that wait for their turn are no standstill.
        """
        now = self._clock()
        oldest = max((now - at for at in self._started.values()), default=0.0)
        return min(now - self._progress, max(oldest, self._queue.lateness(now)))

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            while True:
                await self._free.acquire()
                tasks.create_task(self._one(await self._next()))

    async def _next(self) -> Key:
        while True:
            self._changed.clear()
            now = self._clock()
            key = self._queue.take(now)
            if key is not None:
                return key
            due = self._queue.next_at()
            try:
                async with asyncio.timeout(None if due is None else max(0.0, due - now)):
                    await self._changed.wait()
            except TimeoutError:
                continue

    async def _one(self, key: Key) -> None:
        started = self._started[key] = self._clock()
        result = "failed"
        try:
            async with asyncio.timeout(_LONGEST_SECONDS):
                again = await self._reconcile(key)
        except Closing:
            log.info("the namespace is going", extra={"pool": "/".join(key)})
            self._queue.done(key)
            result = "closing"
        except Unavailable as error:
            self._later(key, str(error), error.after)
        except Refused as error:
            self._later(key, str(error))
        except Exception:
            # A pool that breaks the operator must not stop it for the others.
            log.exception("reconcile broke", extra={"pool": "/".join(key)})
            self._later(key, "see the traceback")
        else:
            self._queue.done(key)
            result = "done"
            if again is not None:
                self.add(key, again)
        finally:
            del self._started[key]
            self._progress = self._clock()
            self._told(result, self._progress - started)
            self._changed.set()
            self._free.release()

    def _later(self, key: Key, why: str, at_least: float = 0.0) -> None:
        pause = self._queue.failed(key, self._clock(), at_least)
        log.warning("reconcile failed", extra={"pool": "/".join(key), "why": why, "pause": pause})
