"""What do the routers know of the pools? Asked over HTTP, each router pod by itself."""

import asyncio
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import aiohttp

_ASK_SECONDS = aiohttp.ClientTimeout(total=3, sock_connect=1)
ERRORS = (aiohttp.ClientError, OSError, TimeoutError, ValueError, KeyError, TypeError)


class Routers:
    """Every router behind one name."""

    def __init__(
        self, http: aiohttp.ClientSession, name: tuple[str, int], key_file: Path | None = None
    ) -> None:
        self._http = http
        self._name = name
        self._key_file = key_file

    def credential(self) -> dict[str, str]:
        """The header by which routers with API keys know the operator; read anew every time.

        Raises OSError.
        """
        if self._key_file is None:
            return {}
        return {"Authorization": f"Bearer {self._key_file.read_text().strip()}"}

    async def urls(self) -> list[str]:
        """The address of every router pod. Raises OSError."""
        host, port = self._name
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        hosts = sorted({str(info[4][0]) for info in found})
        return [url(each, port) for each in hosts]

    async def pools(self, router: str) -> Sequence[Mapping[str, Any]]:
        """The pools as one router knows them; none where it does not answer."""
        try:
            async with self._http.get(f"{router}/internal/pools", timeout=_ASK_SECONDS) as answer:
                shown = await answer.json()
            return [each for each in shown["pools"] if isinstance(each, dict)]
        except ERRORS:
            return []

    async def waiting(self) -> dict[tuple[str, str, str], int]:
        """Requests that wait in all routers, by namespace, pool and class."""
        try:
            routers = await self.urls()
        except OSError:
            return {}
        result: dict[tuple[str, str, str], int] = {}
        for pools in await asyncio.gather(*map(self.pools, routers)):
            for owner, count in _waiting(pools):
                result[owner] = result.get(owner, 0) + count
        return result


def url(host: str, port: int) -> str:
    """The address of a pod."""
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _waiting(pools: Sequence[Mapping[str, Any]]) -> list[tuple[tuple[str, str, str], int]]:
    try:
        return [
            ((str(pool["namespace"]), str(pool["name"]), str(name)), int(queue["waiting"]))
            for pool in pools
            for name, queue in pool["classes"].items()
        ]
    except ERRORS:
        return []
