"""The router as a process that discovers a cluster, under the chart's own rights."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import aiohttp

from cluster.chart import rights
from cluster.control_plane import ControlPlane
from fakes.router_process import RouterProcess, start
from fakes.router_rig import CHAT, chat

USER = "pool-router"
_SECONDS = 60.0


class ClusterRouter:
    """A running router, and what a client or the operator asks it."""

    def __init__(self, process: RouterProcess, http: aiohttp.ClientSession) -> None:
        self.process = process
        self.http = http
        self.url = process.url

    async def ask(self, text: str = "hello", model: str = "tiny", **headers: str) -> int:
        """The status of one short answer."""
        body = chat(text, model=model)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        async with self.http.post(self.url + CHAT, json=body, headers=named) as response:
            await response.read()
            return response.status

    async def get(self, path: str) -> dict[str, Any]:
        """A JSON answer, whatever its status."""
        async with self.http.get(self.url + path) as response:
            shown: dict[str, Any] = await response.json()
            return shown

    async def status(self, path: str) -> int:
        """The status of an answer."""
        async with self.http.get(self.url + path) as response:
            return response.status

    async def ready(self, pool: str = "assistant", cls: str = "interactive") -> int:
        """The ready workers of a class."""
        for each in (await self.get("/internal/pools"))["pools"]:
            if each["name"] == pool:
                return int(each["classes"][cls]["ready"])
        return -1

    async def until_ready(self, count: int, pool: str = "assistant") -> None:
        """Until so many interactive workers take requests."""
        await eventually(lambda: self.ready(pool), count)


async def eventually(question: Callable[[], Any], answer: object) -> None:
    """Until an asynchronous question is answered so. Raises AssertionError with the last answer."""
    last: object = None
    try:
        async with asyncio.timeout(_SECONDS):
            while (last := await question()) != answer:  # noqa: ASYNC110 - another program
                await asyncio.sleep(0.05)
    except TimeoutError:
        raise AssertionError(f"{last!r} instead of {answer!r}") from None


def with_token(server: str, authority: Path, token: Path) -> Path:
    """A kubeconfig beside a token file: what a pod has, as a file."""
    file, name = token.with_suffix(".kubeconfig"), "pod"
    config = {
        "clusters": [
            {"name": name, "cluster": {"server": server, "certificate-authority": str(authority)}}
        ],
        "users": [{"name": name, "user": {"tokenFile": token.name}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        "current-context": name,
    }
    file.write_text(json.dumps(config))
    return file


@contextlib.asynccontextmanager
async def routing(
    plane: ControlPlane,
    namespace: str,
    *,
    user: str = USER,
    kubeconfig: Path | None = None,
    restarts: bool = False,
) -> AsyncIterator[ClusterRouter]:
    """A router of one namespace until the end of the block; its rights must have sufficed, unless
    the API server restarts meanwhile: until it knows the roles it refuses everybody."""
    for each in rights("router", namespace, user):
        plane.admin.apply(each)
    mark = plane.audit.mark()
    env = {"KUBECONFIG": str(kubeconfig or plane.kubeconfig(user))}
    process = await start("--cluster", "--namespace", namespace, "--port", "0", **env)
    try:
        await process.listens()
        async with aiohttp.ClientSession() as http:
            yield ClusterRouter(process, http)
    finally:
        await process.kill()
    assert restarts or plane.audit.denied(mark, user=user) == []
