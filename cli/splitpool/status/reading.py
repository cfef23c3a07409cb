"""What does the cluster say of a pool: the object, its workers' pods, the events about both?"""

import asyncio
import datetime
import difflib
from collections.abc import Iterator

from aiohttp import ClientConnectorError, ClientSSLError

from splitpool.status.connecting import Connection
from splitpool.status.snapshot import Object, Snapshot
from splitpool_operator.cluster import kinds
from splitpool_operator.cluster.kinds import Kind
from splitpool_operator.cluster.kube import Gone, Refused, Unavailable
from splitpool_operator.rendering import names


class Unanswered(Exception):
    """The cluster does not say; the message says why and what to do."""


class NoSuchPool(Exception):
    """There is no pool of that name; the message has names that are near."""


async def snapshot(connection: Connection, namespace: str, name: str) -> Snapshot:
    """One pool. Raises NoSuchPool, Unanswered."""
    try:
        pool = await connection.kube.get(kinds.POOL, namespace, name)
    except (Refused, Unavailable) as error:
        raise Unanswered(_complaint(connection, "get", namespace, error)) from None
    if pool is None:
        raise NoSuchPool(await _near(connection, namespace, name))
    pods, own, warnings = await asyncio.gather(
        _listed(connection, kinds.POD, namespace, selector=f"{names.POOL}={name}"),
        _listed(
            connection,
            kinds.EVENT,
            namespace,
            fields=f"involvedObject.kind=InferencePool,involvedObject.name={name}",
        ),
        _listed(connection, kinds.EVENT, namespace, fields="type=Warning"),
    )
    gaps = list(dict.fromkeys(each for each in (pods, own, warnings) if isinstance(each, str)))
    events = {
        each["metadata"]["uid"]: each
        for part in (own, warnings)
        if not isinstance(part, str)
        for each in part
    }
    return Snapshot(
        pool=pool,
        now=_now(),
        pods=() if isinstance(pods, str) else tuple(pods),
        events=tuple(events.values()),
        gaps=tuple(gaps),
    )


async def snapshots(connection: Connection, namespace: str | None) -> list[Snapshot]:
    """Every pool of a namespace, or of all; the pools only. Raises Unanswered."""
    found = await _pools(connection, namespace)
    now = _now()
    return [Snapshot(pool=each, now=now) for each in found]


async def _pools(connection: Connection, namespace: str | None) -> list[Object]:
    try:
        return await _all(connection, kinds.POOL, namespace)
    except Gone:
        raise Unanswered(
            f"{connection.server} knows no InferencePools: the CRD is not installed; install the "
            "chart, or apply what `splitpool crd` prints"
        ) from None
    except (Refused, Unavailable) as error:
        raise Unanswered(_complaint(connection, "list", namespace, error)) from None


async def _listed(
    connection: Connection, kind: Kind, namespace: str, selector: str = "", fields: str = ""
) -> list[Object] | str:
    """A listing, or why there is none: a page without its pods is better than no page."""
    try:
        return await _all(connection, kind, namespace, selector, fields)
    except (Refused, Unavailable, Gone) as error:
        return f"{kind.plural} are not shown: {error}"


async def _all(
    connection: Connection,
    kind: Kind,
    namespace: str | None,
    selector: str = "",
    fields: str = "",
) -> list[Object]:
    pages = connection.kube.pages(kind, namespace, selector, fields)
    return [item async for page in pages for item in page["items"]]


async def _near(connection: Connection, namespace: str, name: str) -> str:
    """What is there instead. Raises Unanswered."""
    said = f"there is no InferencePool {name} in namespace {namespace}"
    try:
        found = [each["metadata"]["name"] for each in await _pools(connection, namespace)]
    except Unanswered as error:
        # Somebody may read one pool and not list them all.
        if isinstance(error.__context__, Refused):
            return said
        raise
    close = difflib.get_close_matches(name, found, n=1)
    if close:
        return f"{said}; did you mean {close[0]}?"
    if found:
        shown = ", ".join(sorted(found)[:5]) + (" and more" if len(found) > 5 else "")
        return f"{said}; there is {shown}"
    return f"{said}, which has none; splitpool status -A shows those of all namespaces"


def _complaint(connection: Connection, verb: str, namespace: str | None, error: Exception) -> str:
    return " ".join(_parts(connection, verb, namespace, error))


def _parts(
    connection: Connection, verb: str, namespace: str | None, error: Exception
) -> Iterator[str]:
    where = f"-n {namespace}" if namespace else "-A"
    if isinstance(error, Refused):
        if str(error) == "Unauthorized":
            yield f"{connection.server} does not accept the credentials of this kubeconfig;"
            yield "log in again, or name another context with --context"
        else:
            yield f"{error};"
            yield f"ask for the verb {verb}:"
            yield f"kubectl auth can-i {verb} inferencepools.splitpool.dev {where}"
        return
    yield f"the API server {connection.server} cannot be asked: {_why(error)};"
    yield "check that the cluster runs and that the context is the right one"


def _why(error: Exception) -> str:
    cause = error.__cause__
    if isinstance(cause, ClientSSLError):
        return str(cause)
    if isinstance(cause, ClientConnectorError):
        return cause.os_error.strerror or str(cause)
    if isinstance(cause, TimeoutError):
        return "it does not answer in time"
    return str(error)


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)
