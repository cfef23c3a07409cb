"""Which API server is asked, as whom, in which namespace? As kubectl decides it."""

import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

from splitpool.status.api import Api
from splitpool.status.login import logged_in
from splitpool_kube import kubeconfig, service_account
from splitpool_kube.access import Access, NoAccess

_TIMEOUT = aiohttp.ClientTimeout(total=30, sock_connect=10)


@asynccontextmanager
async def connected(file: Path | None, context: str | None) -> AsyncIterator[Api]:
    """The cluster of a kubeconfig, or the one that this process runs in. Raises NoAccess."""
    access = await logged_in(_access(file, context, os.environ))
    options: dict[str, Any] = {"proxy": access.proxy, "server_hostname": access.server_name}
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(ssl=access.tls()),
        headers=access.headers(),
        timeout=_TIMEOUT,
        trust_env=True,
    ) as http:
        yield Api(http=http, server=access.server, namespace=access.namespace, options=options)


def _access(file: Path | None, context: str | None, environment: Mapping[str, str]) -> Access:
    named = str(file) if file else environment.get("KUBECONFIG") or kubeconfig.HOME
    present = kubeconfig.files(named)
    if present:
        return kubeconfig.access(present, context)
    inside = service_account.access(environment) if file is None and context is None else None
    if inside is None:
        in_pod = "KUBERNETES_SERVICE_HOST" in environment
        also = ", and this pod has no service account token" if in_pod else ""
        hint = "name one with --kubeconfig or KUBECONFIG"
        raise NoAccess(f"no kubeconfig: {named} is not there{also}; {hint}")
    return inside
