"""Which pools could be meant? Their names, soon or not at all: somebody waits at a prompt."""

import argparse
import asyncio

from splitpool.status.connecting import connected
from splitpool.status.reading import Unanswered, snapshots
from splitpool_kube.access import NoAccess

_PATIENCE_SECONDS = 2.0


async def names(options: argparse.Namespace) -> list[str]:
    """Of the namespace that is asked about; none where the cluster does not say."""
    try:
        async with (
            asyncio.timeout(_PATIENCE_SECONDS),
            connected(options.kubeconfig, options.context) as api,
        ):
            found = await snapshots(api, options.namespace or api.namespace)
    except (NoAccess, Unanswered, TimeoutError):
        return []
    return [str(each.pool["metadata"]["name"]) for each in found]
