"""The only writer: server-side apply, prune, status and events, through the `kubernetes` client.

Every call has a time limit; failures are sorted by what the caller can do about them.
"""

import json
from collections.abc import Callable
from typing import Any

import aiohttp
from kubernetes.aio.client import ApiClient, ApiException
from kubernetes.aio.dynamic import DynamicClient
from kubernetes.aio.dynamic.exceptions import DynamicApiError

from splitpool_operator.cluster import kinds
from splitpool_operator.cluster.kinds import Kind
from splitpool_operator.cluster.store import FIELD_OWNER

# Keeps a field that the operator gives up, until its new owner writes it.
_HANDOVER = "splitpool-handover"
_TIMEOUT_SECONDS = 30
_LONGEST_WAIT_SECONDS = 300.0
_PAGE = 500
_APPLY = "application/apply-patch+yaml"
_NOT_FOUND, _CONFLICT, _TOO_MANY = 404, 409, 429

Object = dict[str, Any]
# Is told of every request that changes something: its verb and its resource.
Wrote = Callable[[str, str], None]


class Refused(Exception):
    """The API server says no to this request and will again; the message is its own."""


class Unavailable(Exception):
    """The request may succeed later: conflict, overload, timeout or no connection.

    `after`: the seconds that the API server asks to wait.
    """

    def __init__(self, text: str, *, after: float = 0.0) -> None:
        super().__init__(text)
        self.after = after


class Gone(Exception):
    """What was to be changed is not there (any more)."""


class Closing(Exception):
    """The namespace is being deleted with everything in it, or is gone already."""


class Kube:
    """Reads and writes of one API server."""

    def __init__(self, api: ApiClient, wrote: Wrote = lambda verb, resource: None) -> None:
        # Not awaited: addresses are known, so nothing has to be discovered.
        self._client = DynamicClient(api)
        self._wrote = wrote

    async def get(self, kind: Kind, namespace: str, name: str) -> Object | None:
        """An object, or None."""
        try:
            return await self._call("get", kind.path(namespace, name))
        except Gone:
            return None

    async def page(
        self, kind: Kind, namespace: str | None, selector: str, token: str | None
    ) -> Object:
        """The first page of a listing, or the one that the page before it names.

        Raises Gone where the kind is not served.
        """
        return await self._call(
            "get",
            kind.path(namespace),
            label_selector=selector or None,
            limit=_PAGE,
            _continue=token,
        )

    async def apply(self, manifest: Object) -> Object:
        """Server-side apply: what it declares is ours, what it no longer declares goes."""
        return await self._apply(manifest, FIELD_OWNER)

    async def hand_over_replicas(self, live: Object) -> None:
        """Keep the replicas of a Deployment as they are when apply no longer declares them."""
        metadata = live["metadata"]
        kept = {
            "apiVersion": kinds.DEPLOYMENT.api_version,
            "kind": kinds.DEPLOYMENT.name,
            "metadata": {key: metadata[key] for key in ("name", "namespace", "uid")},
            "spec": {"replicas": live["spec"]["replicas"]},
        }
        await self._apply(kept, _HANDOVER)

    async def delete(self, kind: Kind, live: Object) -> None:
        """Delete exactly this object, not another of its name."""
        metadata = live["metadata"]
        body = {
            "preconditions": {"uid": metadata["uid"]},
            "propagationPolicy": "Background",
        }
        self._wrote("delete", kind.plural)
        try:
            await self._call(
                "delete", kind.path(metadata["namespace"], metadata["name"]), body=body
            )
        except Gone:
            return

    async def write_status(self, pool: Object, status: Object) -> Object:
        """Replace a pool's status; the spec stays untouched. Raises Gone."""
        metadata = {key: pool["metadata"][key] for key in ("name", "namespace", "uid")}
        body = {
            "apiVersion": kinds.POOL.api_version,
            "kind": kinds.POOL.name,
            "metadata": metadata,
            "status": status,
        }
        path = kinds.POOL.path(metadata["namespace"], metadata["name"]) + "/status"
        self._wrote("patch", f"{kinds.POOL.plural}/status")
        return await self._patch(path, body, FIELD_OWNER)

    async def emit(self, event: Object) -> None:
        """Post an event."""
        self._wrote("create", kinds.EVENT.plural)
        await self._call("post", kinds.EVENT.path(event["metadata"]["namespace"]), body=event)

    async def _apply(self, manifest: Object, manager: str) -> Object:
        kind, metadata = kinds.of(manifest), manifest["metadata"]
        self._wrote("patch", kind.plural)
        return await self._patch(
            kind.path(metadata["namespace"], metadata["name"]), manifest, manager
        )

    async def _patch(self, path: str, body: Object, manager: str) -> Object:
        return await self._call(
            "patch",
            path,
            body=body,
            content_type=_APPLY,
            field_manager=manager,
            force_conflicts=True,
        )

    async def _call(self, method: str, path: str, **options: Any) -> Object:
        try:
            response = await self._client.request(
                method,
                path,
                serialize=False,
                query_params=[],
                header_params={},
                _request_timeout=_TIMEOUT_SECONDS,
                **options,
            )
            answer: Object = await response.json()
            return answer
        except (ApiException, DynamicApiError) as error:
            raise _sorted(error) from error
        except (TimeoutError, aiohttp.ClientError, OSError) as error:
            raise Unavailable(f"{type(error).__name__}: {error}") from error


def _sorted(error: Any) -> Exception:
    status, body = error.status, _body(error)
    text = str(body.get("message") or f"{status} {error.reason}")
    details = body.get("details") or {}
    if status == _NOT_FOUND:
        return Closing(text) if details.get("kind") == "namespaces" else Gone(text)
    if status in {_CONFLICT, _TOO_MANY} or not status or status >= 500:
        return Unavailable(text, after=_asked_to_wait(error))
    causes = details.get("causes") or []
    if any(each.get("reason") == "NamespaceTerminating" for each in causes):
        return Closing(text)
    return Refused(text)


def _body(error: Any) -> Object:
    """The Status that the API server answered with; a proxy's answer is none."""
    body = error.body
    if isinstance(body, bytes):
        body = body.decode(errors="replace")
    try:
        read = json.loads(body)
    except (ValueError, TypeError):
        return {}
    return read if isinstance(read, dict) else {}


def _asked_to_wait(error: Any) -> float:
    """Seconds of Retry-After; a date, which no API server sends, counts as nothing."""
    text = (error.headers or {}).get("Retry-After", "")
    return min(float(text), _LONGEST_WAIT_SECONDS) if text.isdecimal() else 0.0
