"""Which pools and workers does a cluster have? Snapshots of what its watches have told."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any, Generic, TypeVar

import aiohttp
from pydantic import ValidationError

from splitpool_kube.access import Access
from splitpool_router.cluster import slices
from splitpool_router.cluster.api import Api, Object, Source
from splitpool_router.cluster.following import Follower
from splitpool_router.cluster.slices import Candidate, UnknownRole
from splitpool_router.fleet.discovery import NoSnapshot, Snapshot
from splitpool_router.fleet.pools import Pool, from_object

log = logging.getLogger(__name__)

# In a storm of events snapshots are this far apart; a single one is taken at once.
_GAP_SECONDS = 0.2

Name = tuple[str, str]
T = TypeVar("T")


class Kept(Generic[T]):
    """The objects of one source as they were last seen, read once each."""

    def __init__(self, read: Callable[[Object], T | None], changed: Callable[[], None]) -> None:
        self.values: dict[Name, T] = {}
        self._versions: dict[Name, str] = {}
        self._read = read
        self._changed = changed

    def replace(self, objects: Iterable[Object]) -> None:
        """These and no others exist."""
        listed = {_name(found): found for found in objects}
        for name in self._versions.keys() - listed.keys():
            self._forget(name)
        for name, found in listed.items():
            self._accept(name, found)
        self._changed()

    def put(self, found: Object) -> None:
        """One is there; most changes, as those of a status, change nothing that is read."""
        name = _name(found)
        before = self.values.get(name)
        self._accept(name, found)
        if self.values.get(name) != before:
            self._changed()

    def drop(self, found: Object) -> None:
        """One is gone."""
        if self._forget(_name(found)) is not None:
            self._changed()

    def _accept(self, name: Name, found: Object) -> None:
        """What cannot be read leaves what was read before in force."""
        version = found["metadata"]["resourceVersion"]
        if self._versions.get(name) == version:
            return
        self._versions[name] = version
        try:
            value = self._read(found)
        except (ValidationError, UnknownRole) as error:
            log.warning("%s/%s is not understood: %s", *name, _first(error))
            return
        if value is None:
            self.values.pop(name, None)
        else:
            self.values[name] = value

    def _forget(self, name: Name) -> T | None:
        self._versions.pop(name, None)
        return self.values.pop(name, None)


class ClusterDiscovery:
    """Snapshots of the pools and workers in some namespaces, or in all of them."""

    def __init__(
        self,
        namespaces: Iterable[str],
        *,
        connect: Callable[[], Api],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock = clock
        self._event = asyncio.Event()
        self._generation = 0
        self._taken = 0.0
        self._pools: list[Kept[Pool]] = []
        self._slices: list[Kept[tuple[Candidate, ...]]] = []
        self._followers: list[Follower] = []
        for namespace in tuple(namespaces) or (None,):
            pools = Kept(_pool, self._note)
            found = Kept(slices.candidates, self._note)
            self._pools.append(pools)
            self._slices.append(found)
            self._follow(_pools_of(namespace), pools, connect)
            self._follow(_slices_of(namespace), found, connect)

    async def run(self) -> None:
        """Follows the cluster until cancelled."""
        async with asyncio.TaskGroup() as group:
            for follower in self._followers:
                group.create_task(follower.run())

    async def read(self) -> Snapshot:
        """What is known; raises NoSnapshot until everything was listed once."""
        self._event.clear()
        missing = [str(each.source) for each in self._followers if each.heard is None]
        if missing:
            raise NoSnapshot(f"not listed yet: {', '.join(missing)}")
        self._taken = self._clock()
        return Snapshot(
            generation=self._generation,
            pools=tuple(pool for kept in self._pools for pool in kept.values.values()),
            workers=slices.workers(
                each for kept in self._slices for found in kept.values.values() for each in found
            ),
        )

    async def changed(self) -> None:
        """Returns once something was told since the last `read`."""
        await self._event.wait()
        await asyncio.sleep(max(self._taken + _GAP_SECONDS - self._clock(), 0.0))

    def age(self) -> float | None:
        """Seconds since every part of the cluster was last heard of."""
        heard = [each.heard for each in self._followers]
        known = [each for each in heard if each is not None]
        return self._clock() - min(known) if len(known) == len(heard) else None

    def _follow(self, source: Source, kept: Kept[Any], connect: Callable[[], Api]) -> None:
        follower = Follower(source, kept, connect=connect, clock=self._clock)
        self._followers.append(follower)

    def _note(self) -> None:
        self._generation += 1
        self._event.set()


@asynccontextmanager
async def following(access: Access, namespaces: Iterable[str]) -> AsyncIterator[ClusterDiscovery]:
    """A discovery that follows the cluster until the block is left."""
    async with aiohttp.ClientSession() as http:
        discovery = ClusterDiscovery(namespaces, connect=lambda: Api(http, access))
        task = asyncio.create_task(discovery.run())
        try:
            yield discovery
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


def _pools_of(namespace: str | None) -> Source:
    return Source(group="splitpool.dev/v1alpha1", plural="inferencepools", namespace=namespace)


def _slices_of(namespace: str | None) -> Source:
    return Source(
        group="discovery.k8s.io/v1",
        plural="endpointslices",
        namespace=namespace,
        selector=slices.SELECTOR,
    )


def _pool(manifest: Object) -> Pool | None:
    """One that is being deleted takes nothing new, though its workers may drain for long."""
    if manifest["metadata"].get("deletionTimestamp"):
        return None
    return from_object(manifest)


def _name(found: Object) -> Name:
    return found["metadata"]["namespace"], found["metadata"]["name"]


def _first(error: ValidationError | UnknownRole) -> str:
    if isinstance(error, ValidationError):
        first = error.errors(include_input=False)[0]
        return f"{'.'.join(str(part) for part in first['loc'])}: {first['msg']}"
    return str(error)
