"""Which replica acts? The holder of a Lease; one that loses it ends its process.

The client's election never limits a single request, so this one also leaves when the lease was
not renewed in time, whatever the election is waiting for. A replica that ends on purpose gives
the lease back, so that the next one need not wait for it to lapse.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, cast

import aiohttp
from kubernetes.aio.client import ApiClient, ApiException, V1Lease, V1ObjectMeta
from kubernetes.aio.leaderelection.electionconfig import Config
from kubernetes.aio.leaderelection.leaderelection import LeaderElection
from kubernetes.aio.leaderelection.resourcelock.leaselock import LeaseLock

log = logging.getLogger("splitpool_operator")

LEASE_SECONDS = 15
_RENEW_DEADLINE_SECONDS = 10
_RETRY_SECONDS = 2


_NO_CONNECTION = (aiohttp.ClientError, OSError, TimeoutError)


@dataclass(frozen=True, slots=True)
class Lease:
    """Which Lease: installations in one namespace have one each."""

    name: str
    namespace: str


class LeaseLost(Exception):
    """Another replica acts now, or may."""


class _WatchedLock(LeaseLock):  # type: ignore[misc]
    """Knows when it was last renewed."""

    def __init__(self, lease: Lease, identity: str, api: ApiClient) -> None:
        super().__init__(lease.name, lease.namespace, identity, api)
        self.renewed = time.monotonic()

    async def get(self, name: str, namespace: str) -> tuple[bool, Any]:
        try:
            return cast(tuple[bool, Any], await super().get(name, namespace))
        except _NO_CONNECTION as error:
            return False, ApiException(status=0, reason=f"{type(error).__name__}: {error}")

    async def create(self, name: str, namespace: str, election_record: Any) -> bool:
        """Not the client's own, which passes an argument that its own validation refuses."""
        body = V1Lease(metadata=V1ObjectMeta(name=name), spec=self.update_lease(election_record))
        try:
            await self.api_instance.create_namespaced_lease(namespace, body)
        except (ApiException, *_NO_CONNECTION):
            return False
        return self._noted(True)

    async def update(self, name: str, namespace: str, updated_record: Any) -> bool:
        try:
            return self._noted(await super().update(name, namespace, updated_record))
        except _NO_CONNECTION:
            return False

    def _noted(self, succeeded: bool) -> bool:
        if succeeded:
            self.renewed = time.monotonic()
        return succeeded


async def lead(
    api: ApiClient, lease: Lease, identity: str, act: Callable[[], Coroutine[Any, Any, None]]
) -> None:
    """Wait for the lease, then act; returns when the acting does. Raises LeaseLost."""
    lock = _WatchedLock(lease, identity, api)
    elected = asyncio.Event()

    async def started() -> None:
        elected.set()

    async def lost() -> None:
        raise LeaseLost("the lease could not be renewed")

    config = Config(lock, LEASE_SECONDS, _RENEW_DEADLINE_SECONDS, _RETRY_SECONDS, started, lost)
    election = asyncio.create_task(LeaderElection(config).run())
    waiting = asyncio.create_task(elected.wait())
    try:
        await _first(election, waiting)
        log.info("leading", extra={"identity": identity})
        await _first(election, asyncio.create_task(act()), asyncio.create_task(_watch(lock)))
    finally:
        for task in (election, waiting):
            task.cancel()
        await asyncio.gather(election, waiting, return_exceptions=True)
    await _give_back(lock, lease, identity)


async def _first(*tasks: asyncio.Task[Any]) -> None:
    """Until one of them is done; its error is raised."""
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks[1:]:
            task.cancel()


async def _watch(lock: _WatchedLock) -> None:
    """Until the lease was not renewed for nearly as long as it lasts."""
    limit = LEASE_SECONDS - _RETRY_SECONDS
    while True:
        left = lock.renewed + limit - time.monotonic()
        if left <= 0:
            raise LeaseLost("the lease was not renewed in time")
        await asyncio.sleep(left)


async def _give_back(lock: _WatchedLock, lease: Lease, identity: str) -> None:
    try:
        held = await lock.api_instance.read_namespaced_lease(lease.name, lease.namespace)
        if held.spec.holder_identity != identity:
            return
        held.spec.holder_identity = None
        await lock.api_instance.replace_namespaced_lease(lease.name, lease.namespace, held)
    except (ApiException, OSError, TimeoutError):
        log.warning("the lease was not given back and lapses by itself")
