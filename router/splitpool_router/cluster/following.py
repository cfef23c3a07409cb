"""How does one kind stay known as it is? Listed, watched, and listed again when the watch breaks.

What is known stays in force while the API server is away; a new listing replaces it as a whole,
so that what vanished meanwhile is gone.
"""

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable, Iterable
from contextlib import aclosing
from typing import Protocol

from splitpool_kube.access import NoAccess
from splitpool_router.cluster.api import Api, Event, Expired, Failed, Object, Source

log = logging.getLogger(__name__)

_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 10.0
# Something that ends watches at once is not to be asked again at once.
_SHORT_SECONDS = 1.0


class Keeper(Protocol):
    """Where objects are kept."""

    def replace(self, objects: Iterable[Object]) -> None:
        """These and no others exist."""

    def put(self, found: Object) -> None:
        """One is there, or is another than before."""

    def drop(self, found: Object) -> None:
        """One is gone."""


class Pauses:
    """How long to wait between attempts: ever longer, and never in step with other routers."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._next = _FIRST_PAUSE

    def reset(self) -> None:
        """Something came of the last attempt."""
        self._next = _FIRST_PAUSE

    def next(self) -> float:
        """Seconds until the next attempt."""
        pause = self._next * self._rng.uniform(0.5, 1.0)
        self._next = min(2 * self._next, _LONGEST_PAUSE)
        return pause


class Follower:
    """Keeps one source's objects."""

    def __init__(
        self,
        source: Source,
        keeper: Keeper,
        *,
        connect: Callable[[], Api],
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        rng: random.Random | None = None,
    ) -> None:
        self.source = source
        # When the API server last said something; None before the first listing.
        self.heard: float | None = None
        self._keeper = keeper
        self._connect = connect
        self._clock = clock
        self._sleep = sleep
        self._pauses = Pauses(rng or random.Random())
        self._complaint = ""

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            try:
                await self._follow()
            except Expired as error:
                log.info("listing again: %s", error)
            except (Failed, NoAccess) as error:
                self._complain(str(error))
            await self._sleep(self._pauses.next())

    async def _follow(self) -> None:
        api = self._connect()
        listing = await api.list(self.source)
        self._keeper.replace(listing.items)
        self._hear()
        self._recovered()
        version = listing.version
        while True:
            opened = self._clock()
            version = await self._watch(api, version)
            if self._clock() - opened < _SHORT_SECONDS:
                await self._sleep(self._pauses.next())

    async def _watch(self, api: Api, version: str) -> str:
        """The version after the last event of one watch, which the server ended in order."""
        async with aclosing(api.watch(self.source, version)) as events:
            async for event in events:
                self._hear()
                if event is not None:
                    self._pauses.reset()
                    self._take(event)
                    version = event.version
        self._hear()
        return version

    def _take(self, event: Event) -> None:
        if event.kind in ("ADDED", "MODIFIED"):
            self._keeper.put(event.object)
        elif event.kind == "DELETED":
            self._keeper.drop(event.object)

    def _hear(self) -> None:
        self.heard = self._clock()

    def _complain(self, text: str) -> None:
        """Once: an API server that is away says the same at every attempt."""
        if text != self._complaint:
            log.warning("%s; what is known stays in force", text)
            self._complaint = text

    def _recovered(self) -> None:
        if self._complaint:
            log.info("%s: listed again", self.source)
            self._complaint = ""
