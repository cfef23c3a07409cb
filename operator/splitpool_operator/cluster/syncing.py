"""How does the store learn what no watch told? Everything is listed now and then.

After an expired watch the event source lists again, but tells of no deletion.
"""

import asyncio
import logging
from collections.abc import AsyncIterator

from splitpool_operator.cluster.kinds import POOL, WATCHED, Kind
from splitpool_operator.cluster.kube import Gone, Kube, Object, Unavailable
from splitpool_operator.cluster.scope import Scope, selector
from splitpool_operator.cluster.store import Key, Store

log = logging.getLogger("splitpool_operator")

# A page that fails is asked for again, so that all of them come also where every third fails.
_PAUSES_SECONDS = (0.2, 0.5, 1.0, 2.0, 4.0)


async def sync(kube: Kube, store: Store, scope: Scope) -> set[Key]:
    """Bring the store up to date; the pools of which something had been missed.

    Raises kube.Unavailable and kube.Refused.
    """
    missed: set[Key] = set()
    for kind in WATCHED:
        missed |= await _sync_kind(kube, store, scope, kind)
    return missed


async def _sync_kind(kube: Kube, store: Store, scope: Scope, kind: Kind) -> set[Key]:
    found: list[Object] = []
    versions: list[int] = []
    for namespace in scope.listed:
        try:
            async for page in _pages(kube, kind, namespace):
                found += [kind.typed(each) for each in page["items"]]
                versions.append(int(page["metadata"]["resourceVersion"]))
        except Gone:
            if kind is POOL:
                raise Unavailable("the CRD of inferencepools is not installed") from None
            # An API that this cluster does not serve: its kinds cannot be there.
            log.debug("kind is not served", extra={"kind": kind.name})
    # What was made after the first namespace was listed is in no listing of that namespace.
    return store.replace(kind, found, min(versions, default=0))


async def _pages(kube: Kube, kind: Kind, namespace: str | None) -> AsyncIterator[Object]:
    token: str | None = None
    while True:
        page = await _page(kube, kind, namespace, token)
        yield page
        token = page["metadata"].get("continue")
        if not token:
            return


async def _page(kube: Kube, kind: Kind, namespace: str | None, token: str | None) -> Object:
    for pause in _PAUSES_SECONDS:
        try:
            return await kube.page(kind, namespace, selector(kind), token)
        except Unavailable as error:
            await asyncio.sleep(max(pause, error.after))
    return await kube.page(kind, namespace, selector(kind), token)
