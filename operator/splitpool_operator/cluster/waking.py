"""Which sleeping classes have somebody waiting for them? Level-based: a lost look changes nothing.

While any class that may wake is at zero, the routers are asked what waits there.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping

from splitpool_operator.cluster import kinds
from splitpool_operator.cluster.routers import Routers
from splitpool_operator.cluster.store import Key, Store
from splitpool_operator.rendering import names

_EVERY_SECONDS = 2.0


class Waking:
    """Looks, and has pools looked at whose requests wait."""

    def __init__(self, store: Store, routers: Routers | None, enqueue: Callable[[Key], None]):
        self._store = store
        self._routers = routers
        self._enqueue = enqueue
        self._waiting: Mapping[tuple[str, str, str], int] = {}

    def waiting(self, key: Key) -> dict[str, int]:
        """Requests that wait for classes of a pool, as far as they were asked about."""
        return {owner[2]: count for owner, count in self._waiting.items() if owner[:2] == key}

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self.look()
            await asyncio.sleep(_EVERY_SECONDS)

    async def look(self) -> None:
        """Ask once, if there is a class to ask for."""
        asleep = set(self._asleep())
        self._waiting = {}
        if not asleep or self._routers is None:
            return
        found = await self._routers.waiting()
        self._waiting = {owner: found[owner] for owner in asleep if found.get(owner)}
        for namespace, pool, _ in self._waiting:
            self._enqueue((namespace, pool))

    def _asleep(self) -> Iterator[tuple[str, str, str]]:
        """Namespace, pool and class of what autoscaling keeps at zero."""
        for key in self._store.pools():
            pool = self._store.pool(key) or {}
            scaling = (pool.get("spec") or {}).get("autoscaling") or {}
            if scaling.get("mode") != "Managed":
                continue
            for live in self._store.of_pool(kinds.DEPLOYMENT, key):
                if live["spec"].get("replicas", 1) == 0:
                    role = live["metadata"]["labels"].get(names.CLASS, "")
                    for name in ("interactive", "batch") if role == "shared" else (role,):
                        yield (*key, name)
