"""Which headers cross the router, in each direction."""

import re
import secrets
from collections.abc import Iterable, Mapping

from multidict import CIMultiDict, CIMultiDictProxy

REQUEST_ID = "X-Request-Id"
STREAM_ID = "X-Splitpool-Stream-Id"
RESUMABLE = "X-Splitpool-Resumable"
CALLER = "X-Splitpool-Caller"
TOKEN = "X-Splitpool-Token"

Headers = CIMultiDict[str] | CIMultiDictProxy[str]

HOP_BY_HOP = frozenset(
    {
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
# An allow-list, since a deny-list leaks the next credential header that somebody invents.
TO_WORKER = frozenset({"content-type", "accept", "user-agent", "traceparent", "tracestate"})
NOT_TO_CLIENT = HOP_BY_HOP | {"server", "date", "content-length", "server-timing", "set-cookie"}

_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,128}")


def request_id(headers: Mapping[str, str]) -> tuple[str, bool]:
    """The request's id, and whether it is the client's own (one of another shape is replaced)."""
    own = headers.get(REQUEST_ID)
    if own is not None and _REQUEST_ID.fullmatch(own):
        return own, True
    return secrets.token_hex(16), False


def upstream(
    headers: Headers, *, forward: Iterable[str], ours: Mapping[str, str]
) -> CIMultiDict[str]:
    """What a worker gets: the allow-list, what the pool forwards, and the router's own headers."""
    allowed = TO_WORKER | {name.lower() for name in forward}
    refused = HOP_BY_HOP | _listed_by_connection(headers) | {"host", "content-length"}
    kept = CIMultiDict(
        (name, value)
        for name, value in headers.items()
        if name.lower() in allowed
        and name.lower() not in refused
        and not name.lower().startswith("x-splitpool-")
    )
    kept["Accept-Encoding"] = "identity"
    kept.update(ours)
    return kept


def downstream(headers: Headers, *, ours: Mapping[str, str]) -> CIMultiDict[str]:
    """What the client gets of a worker's head, without its framing and identity."""
    refused = NOT_TO_CLIENT | _listed_by_connection(headers)
    kept = CIMultiDict(
        (name, value)
        for name, value in headers.items()
        if name.lower() not in refused and not name.lower().startswith("access-control-")
    )
    for name, value in ours.items():
        kept[name] = value
    return kept


def wants_resume(headers: Mapping[str, str]) -> bool:
    """Whether the client asks for a resumable stream."""
    return headers.get(RESUMABLE, "").strip().lower() in {"true", "1"}


def _listed_by_connection(headers: Headers) -> frozenset[str]:
    listed = ",".join(headers.getall("Connection", [])).lower()
    return frozenset(name.strip() for name in listed.split(",") if name.strip())
