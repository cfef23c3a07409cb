"""How does the store learn what no watch told? Everything is listed now and then.

After an expired watch the event source lists again, but tells of no deletion.
"""

import logging

from splitpool_operator.cluster.kinds import POOL, WATCHED, Kind
from splitpool_operator.cluster.kube import Gone, Kube, Object, Unavailable
from splitpool_operator.cluster.scope import Scope, selector
from splitpool_operator.cluster.store import Key, Store

log = logging.getLogger("splitpool_operator")


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
    version = 0
    for namespace in scope.listed:
        try:
            async for page in kube.pages(kind, namespace, selector(kind)):
                found += [kind.typed(each) for each in page["items"]]
                version = int(page["metadata"]["resourceVersion"])
        except Gone:
            if kind is POOL:
                raise Unavailable("the CRD of inferencepools is not installed") from None
            # An API that this cluster does not serve: its kinds cannot be there.
            log.debug("kind is not served", extra={"kind": kind.name})
    return store.replace(kind, found, version)
