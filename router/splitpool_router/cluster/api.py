"""What does the API server say of one kind: a listing in pages, a watch event by event."""

import asyncio
import json
import random
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

import aiohttp
from pydantic import Field
from yarl import URL

from splitpool_kube.access import Access, NoAccess
from splitpool_router.fleet.pools import Lenient

Object = Mapping[str, Any]

# A page is parsed in one go on the event loop; a hundred pools take a few milliseconds.
_PAGE = 100
_LIST_SECONDS = 60.0
_CONNECT_SECONDS = 10.0
# The server ends a watch after this long, each one at another time. That it does is its sign of
# life: of a kind of which nothing was ever changed it sends no bookmarks either.
_WATCH_SECONDS = (40, 60)
# A watch that was not even ended is dead, whatever its socket says.
_SILENCE_SECONDS = 75.0
# Objects are at most 1.5 MB in etcd.
_MAX_LINE = 16 * 2**20
_NOT_FOUND, _GONE, _TOO_LARGE_VERSION = 404, 410, 504


class Failed(Exception):
    """The API server cannot be reached or says no; the message says which."""


class Expired(Exception):
    """The version to go on from is no longer known: only a new listing tells what there is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A kind, in one namespace or in all, with a label selector."""

    group: str  # with its version
    plural: str
    namespace: str | None
    selector: str = ""

    @property
    def path(self) -> str:
        """Where it is listed and watched."""
        place = f"/namespaces/{self.namespace}" if self.namespace else ""
        return f"/apis/{self.group}{place}/{self.plural}"

    def __str__(self) -> str:
        return f"{self.plural} of {self.namespace or 'all namespaces'}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """Everything that was there at one version."""

    items: list[Object]
    version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One line of a watch."""

    kind: str  # ADDED, MODIFIED, DELETED or BOOKMARK
    object: Object

    @property
    def version(self) -> str:
        """From where a next watch goes on."""
        return str(self.object["metadata"]["resourceVersion"])


class _PageMetadata(Lenient):
    version: str = Field(alias="resourceVersion")
    token: str | None = Field(None, alias="continue")


class _Page(Lenient):
    metadata: _PageMetadata
    items: list[dict[str, Any]]


class Api:
    """One API server, spoken to until it breaks."""

    def __init__(self, http: aiohttp.ClientSession, access: Access) -> None:
        self._http = http
        self._access = access
        self._tls = access.tls()

    async def list(self, source: Source) -> Listing:
        """All objects. Raises Failed and Expired."""
        items: list[Object] = []
        token: str | None = None
        while True:
            page = await self._page(source, token)
            items += page.items
            token = page.metadata.token
            if not token:
                return Listing(items=items, version=page.metadata.version)

    async def watch(self, source: Source, version: str) -> AsyncGenerator[Event | None]:
        """None once the watch is open, then what happens after a version, until the server ends
        it. Raises Failed and Expired."""
        query = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": version,
            "timeoutSeconds": str(random.randint(*_WATCH_SECONDS)),
            "labelSelector": source.selector,
        }
        timeout = aiohttp.ClientTimeout(
            total=None, sock_connect=_CONNECT_SECONDS, sock_read=_SILENCE_SECONDS
        )
        try:
            async with self._get(source, query, timeout) as answer:
                await _refuse(source, answer)
                yield None
                async for line in _lines(answer.content):
                    yield _event(source, line)
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
            raise _failed(source, error) from error

    async def _page(self, source: Source, token: str | None) -> "_Page":
        query = {"limit": str(_PAGE), "labelSelector": source.selector}
        if token:
            query["continue"] = token
        timeout = aiohttp.ClientTimeout(total=_LIST_SECONDS, sock_connect=_CONNECT_SECONDS)
        try:
            async with self._get(source, query, timeout) as answer:
                await _refuse(source, answer)
                return _Page.model_validate_json(await answer.read())
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
            raise _failed(source, error) from error

    def _get(self, source: Source, query: Mapping[str, str], timeout: aiohttp.ClientTimeout) -> Any:
        given = {name: value for name, value in query.items() if value}
        address = f"{self._access.server}{source.path}?{urlencode(given)}"
        try:
            headers = self._access.headers()
        except NoAccess as error:
            raise Failed(str(error)) from error
        return self._http.get(
            URL(address, encoded=True),
            headers={**headers, "Accept": "application/json", "User-Agent": "splitpool-router"},
            ssl=self._tls,
            server_hostname=self._access.server_name,
            proxy=self._access.proxy,
            timeout=timeout,
            allow_redirects=False,
        )


async def _refuse(source: Source, answer: aiohttp.ClientResponse) -> None:
    if answer.status == 200:
        return
    body = await answer.read()
    if answer.status in (_GONE, _TOO_LARGE_VERSION):
        raise Expired(f"{source}: {_message(body)}")
    if answer.status == _NOT_FOUND:
        raise Failed(f"{source}: not served here: install their CustomResourceDefinition")
    raise Failed(f"{source}: {answer.status} {_message(body)}")


def _message(body: bytes) -> str:
    """The API server's own sentence."""
    try:
        return str(json.loads(body)["message"])
    except (ValueError, KeyError, TypeError):
        return body[:200].decode(errors="replace").strip()


def _failed(source: Source, error: Exception) -> Failed:
    if isinstance(error, (TimeoutError, asyncio.TimeoutError)):
        return Failed(f"{source}: the API server says nothing")
    return Failed(f"{source}: {type(error).__name__}: {error}")


async def _lines(content: aiohttp.StreamReader) -> AsyncIterator[bytes]:
    rest = b""
    async for chunk in content.iter_any():
        *lines, rest = (rest + chunk).split(b"\n")
        if len(rest) > _MAX_LINE:
            raise ValueError(f"a line of over {_MAX_LINE} bytes")
        for line in lines:
            if line.strip():
                yield line


def _event(source: Source, line: bytes) -> Event:
    try:
        parsed = json.loads(line)
        kind, found = parsed["type"], parsed["object"]
        if kind != "ERROR":
            return Event(kind=kind, object=found)
    except (KeyError, TypeError) as error:
        raise ValueError("an event without type or object") from error
    if found.get("code") in (_GONE, _TOO_LARGE_VERSION):
        raise Expired(f"{source}: {found.get('message')}")
    raise Failed(f"{source}: {found.get('message')}")
