"""Kubernetes' API as one user sees it: objects are plain dicts, a refusal is an `ApiError`.

It is synchronous and small on purpose: tests say in one line what they do to the cluster. It may
be used from several threads.
"""

import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import urlencode

import urllib3

from cluster.patience import patient
from cluster.pki import Pair

Object: TypeAlias = dict[str, Any]
FIELD_MANAGER = "tests"
_POLL_SECONDS = 0.05
_CONTENT_TYPES = {
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "apply": "application/apply-patch+yaml",
    "json": "application/json-patch+json",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One cause that a refusal names."""

    field: str
    text: str


class ApiError(Exception):
    """The API server's refusal: HTTP status, constant reason, and the fields it is about."""

    def __init__(self, status: Object) -> None:
        super().__init__(status.get("message", status))
        self.code: int = status.get("code", 0)
        self.reason: str = status.get("reason", "")
        causes = status.get("details", {}).get("causes", [])
        self.problems = [
            Problem(field=cause.get("field", ""), text=cause.get("message", "")) for cause in causes
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """How the API names a kind."""

    api_version: str
    plural: str
    namespaced: bool

    def path(self, namespace: str | None, name: str = "", subresource: str = "") -> str:
        """The path of an object, or of all objects where no name is given."""
        root = "/api/" if "/" not in self.api_version else "/apis/"
        place = ["namespaces", namespace] if self.namespaced and namespace else []
        parts = [self.api_version, *place, self.plural, name, subresource]
        return root + "/".join(filter(None, parts))


@dataclass(slots=True)
class Api:
    """What one user does."""

    server: str
    authority: Path
    user: Pair
    _http: urllib3.PoolManager = field(init=False)
    _resources: dict[tuple[str, str], Resource] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self._http = urllib3.PoolManager(
            maxsize=8,
            retries=False,
            ca_certs=str(self.authority),
            cert_file=str(self.user.certificate),
            key_file=str(self.user.key),
        )

    def close(self) -> None:
        """Close all connections."""
        self._http.clear()

    def request(
        self,
        method: str,
        path: str,
        body: Object | list[Object] | None = None,
        *,
        content_type: str = "application/json",
        query: Mapping[str, str] | None = None,
    ) -> Object:
        """One request and its answer. Raises ApiError."""
        response = self._http.request(
            method,
            f"{self.server}{path}?{urlencode(query or {})}",
            body=None if body is None else json.dumps(body),
            headers={"Content-Type": content_type},
            timeout=30.0,
        )
        try:
            answer: Object = response.json()
        except ValueError:
            answer = {"code": response.status, "message": response.data.decode(errors="replace")}
        if response.status >= 400:
            raise ApiError(answer)
        return answer

    def resource(self, api_version: str, kind: str) -> Resource:
        """The name of a kind; asked once."""
        if (api_version, kind) not in self._resources:
            root = "/api/" if "/" not in api_version else "/apis/"
            for each in self.request("GET", root + api_version)["resources"]:
                self._resources.setdefault(
                    (api_version, each["kind"]),
                    Resource(
                        api_version=api_version,
                        plural=each["name"],
                        namespaced=each["namespaced"],
                    ),
                )
        return self._resources[api_version, kind]

    def create(self, obj: Object, **query: str) -> Object:
        """Create an object; unknown fields are refused."""
        query = {"fieldValidation": "Strict", "fieldManager": FIELD_MANAGER} | query
        return self.request("POST", self._path(obj, named=False), obj, query=query)

    def apply(self, obj: Object, subresource: str = "", **query: str) -> Object:
        """Server-side apply, which takes over fields of other managers."""
        query = {"fieldManager": FIELD_MANAGER, "force": "true"} | query
        path = self._path(obj, subresource=subresource)
        return self.request("PATCH", path, obj, content_type=_CONTENT_TYPES["apply"], query=query)

    def patch(
        self, obj: Object, change: Object, subresource: str = "", how: str = "merge"
    ) -> Object:
        """Change fields of an object."""
        path = self._path(obj, subresource=subresource)
        return self.request("PATCH", path, change, content_type=_CONTENT_TYPES[how])

    def get(self, api_version: str, kind: str, name: str, namespace: str | None = None) -> Object:
        """An object. Raises ApiError."""
        path = self.resource(api_version, kind).path(namespace, name)
        return self.request("GET", path)

    def reread(self, obj: Object) -> Object:
        """The object as it is now. Raises ApiError."""
        return self.request("GET", self._path(obj))

    def listed(
        self, api_version: str, kind: str, namespace: str | None = None, **query: str
    ) -> list[Object]:
        """All objects of a kind, in a namespace or in the cluster."""
        path = self.resource(api_version, kind).path(namespace)
        items: list[Object] = self.request("GET", path, query=query)["items"]
        return items

    def delete(self, obj: Object, grace_seconds: int | None = None) -> None:
        """Delete an object; one that is gone already is fine."""
        options: Object = {"propagationPolicy": "Background"}
        if grace_seconds is not None:
            options["gracePeriodSeconds"] = grace_seconds
        try:
            self.request("DELETE", self._path(obj), options)
        except ApiError as error:
            if error.code != 404:
                raise

    def watch(self, path: str, query: Mapping[str, str]) -> urllib3.BaseHTTPResponse:
        """An open watch, to be read with `events`; `shutdown` of another thread ends it."""
        return self._http.request(
            "GET",
            f"{self.server}{path}?{urlencode({'watch': 'true', **query})}",
            preload_content=False,
            timeout=urllib3.Timeout(connect=10, read=None),
        )

    def _path(self, obj: Object, *, named: bool = True, subresource: str = "") -> str:
        meta = obj["metadata"]
        resource = self.resource(obj["apiVersion"], obj["kind"])
        namespace = meta.get("namespace", "default")
        return resource.path(namespace, meta["name"] if named else "", subresource)


def events(response: urllib3.BaseHTTPResponse) -> Iterator[Object]:
    """Every event of a watch, until it ends."""
    rest = b""
    for chunk in response.stream(65536):
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            yield json.loads(line)


def eventually(question: Callable[[], Any], what: str, seconds: float = 30.0) -> Any:
    """Ask until the answer is true, and give it back. Raises TimeoutError with the last answer.

    `patience` multiplies the seconds.
    """
    seconds = patient(seconds)
    deadline = time.monotonic() + seconds
    while not (answer := question()):
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {seconds:g} s: {what}; last answer: {answer!r}")
        time.sleep(_POLL_SECONDS)
    return answer
