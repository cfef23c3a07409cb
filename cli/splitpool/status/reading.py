"""What does the cluster say of a pool: the object, its workers' pods, the events about both?"""

import asyncio
import datetime
import difflib

from splitpool.status.api import Api, Away, Forbidden, NotFound, Unauthorized
from splitpool.status.snapshot import Object, Snapshot
from splitpool_operator.cluster import kinds
from splitpool_operator.cluster.kinds import Kind
from splitpool_operator.rendering import names

_FAILURES = (Forbidden, Unauthorized, Away)


class Unanswered(Exception):
    """The cluster does not say; the message says why and what to do."""


class NoSuchPool(Exception):
    """There is no pool of that name; the message has names that are near."""


async def snapshot(api: Api, namespace: str, name: str) -> Snapshot:
    """One pool. Raises NoSuchPool, Unanswered."""
    try:
        pool = await api.get(kinds.POOL, namespace, name)
    except NotFound:
        raise NoSuchPool(await _near(api, namespace, name)) from None
    except _FAILURES as error:
        raise Unanswered(_complaint(api, "get", namespace, error)) from None
    about = f"involvedObject.kind=InferencePool,involvedObject.name={name}"
    pods, own, warnings = await asyncio.gather(
        _listed(api, kinds.POD, namespace, labels=f"{names.POOL}={name}"),
        _listed(api, kinds.EVENT, namespace, fields=about),
        _listed(api, kinds.EVENT, namespace, fields="type=Warning"),
    )
    parts = (pods, own, warnings)
    gaps = dict.fromkeys(part for part in parts if isinstance(part, str))
    events = [each for part in (own, warnings) if not isinstance(part, str) for each in part]
    return Snapshot(
        pool=pool,
        now=_now(),
        pods=() if isinstance(pods, str) else tuple(pods),
        events=tuple({each["metadata"]["uid"]: each for each in events}.values()),
        gaps=tuple(gaps),
    )


async def snapshots(api: Api, namespace: str | None) -> list[Snapshot]:
    """Every pool of a namespace, or of all; the pools only. Raises Unanswered."""
    try:
        found = await api.listed(kinds.POOL, namespace)
    except NotFound:
        raise Unanswered(_no_crd(api)) from None
    except _FAILURES as error:
        raise Unanswered(_complaint(api, "list", namespace, error)) from None
    now = _now()
    return [Snapshot(pool=each, now=now) for each in found]


async def _listed(
    api: Api, kind: Kind, namespace: str, *, labels: str = "", fields: str = ""
) -> list[Object] | str:
    """A listing, or why there is none: a page without its pods is better than no page."""
    try:
        return await api.listed(kind, namespace, labels=labels, fields=fields)
    except (*_FAILURES, NotFound) as error:
        return f"{kind.plural} are not shown: {error}"


async def _near(api: Api, namespace: str, name: str) -> str:
    """What is there instead. Raises Unanswered."""
    said = f"there is no InferencePool {name} in namespace {namespace}"
    try:
        listed = await api.listed(kinds.POOL, namespace)
    except NotFound:
        raise Unanswered(_no_crd(api)) from None
    except _FAILURES:
        # Somebody may read one pool and not list them all.
        return said
    found = sorted(each["metadata"]["name"] for each in listed)
    close = difflib.get_close_matches(name, found, n=1)
    if close:
        return f"{said}; did you mean {close[0]}?"
    if found:
        return f"{said}; there is {', '.join(found[:5])}" + (" and more" if found[5:] else "")
    return f"{said}, which has none; -A shows those of all namespaces"


def _no_crd(api: Api) -> str:
    return (
        f"{api.server} knows no InferencePools: the CRD is not installed; install the chart, or "
        "apply what `splitpool crd` prints"
    )


def _complaint(api: Api, verb: str, namespace: str | None, error: Exception) -> str:
    match error:
        case Forbidden():
            where = f"-n {namespace}" if namespace else "-A"
            ask = f"kubectl auth can-i {verb} inferencepools.splitpool.dev {where}"
            return f"{error}; ask for the verb {verb}: {ask}"
        case Unauthorized():
            return (
                f"{api.server} does not accept the credentials of this kubeconfig; log in again, "
                "or name another context with --context"
            )
    return (
        f"the API server {api.server} cannot be asked: {error}; check that the cluster runs and "
        "that the context is the right one"
    )


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)
