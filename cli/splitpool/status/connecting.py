"""Which API server is asked, as whom, in which namespace? As kubectl decides it."""

import os
import ssl
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

from splitpool.status import kubeconfig
from splitpool.status.api import Api
from splitpool.status.kubeconfig import Access, Unusable
from splitpool.status.login import logged_in

_INSIDE = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_HOME = "~/.kube/config"
_TIMEOUT = aiohttp.ClientTimeout(total=30, sock_connect=10)


@asynccontextmanager
async def connected(file: Path | None, context: str | None) -> AsyncIterator[Api]:
    """The cluster of a kubeconfig, or the one that this process runs in. Raises Unusable."""
    access = await logged_in(_access(file, context, os.environ))
    options: dict[str, Any] = {"proxy": access.proxy, "server_hostname": access.server_name}
    headers = {"Authorization": f"Bearer {access.token}"} if access.token else {}
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(ssl=_trust(access)),
        auth=aiohttp.BasicAuth(*access.basic) if access.basic and not access.token else None,
        headers=headers,
        timeout=_TIMEOUT,
        trust_env=True,
    ) as http:
        yield Api(http=http, server=access.server, namespace=access.namespace, options=options)


def _access(file: Path | None, context: str | None, environment: Mapping[str, str]) -> Access:
    named = str(file) if file else environment.get("KUBECONFIG") or _HOME
    paths = [Path(each).expanduser() for each in named.split(os.pathsep) if each]
    present = [path for path in paths if path.exists()]
    if present:
        return kubeconfig.access(present, context)
    host = environment.get("KUBERNETES_SERVICE_HOST")
    if file is None and context is None and host:
        return _inside(host, environment.get("KUBERNETES_SERVICE_PORT", "443"))
    raise Unusable(f"no kubeconfig: {named} is not there; name one with --kubeconfig or KUBECONFIG")


def _inside(host: str, port: str) -> Access:
    """As the service account of the pod that this runs in."""
    try:
        return Access(
            server=f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}",
            namespace=(_INSIDE / "namespace").read_text().strip(),
            authority=(_INSIDE / "ca.crt").read_bytes(),
            token=(_INSIDE / "token").read_text().strip(),
        )
    except OSError as error:
        raise Unusable(
            f"this pod's service account cannot be used: {error.filename}: {error.strerror}; mount "
            "its token, or name a kubeconfig with --kubeconfig"
        ) from None


def _trust(access: Access) -> ssl.SSLContext:
    """What is trusted, and the certificate that is shown. Raises Unusable."""
    trust = ssl.create_default_context()
    try:
        if access.authority is not None:
            trust = ssl.create_default_context(cadata=access.authority.decode())
        if access.certificate is not None:
            _show(trust, access.certificate + b"\n" + (access.key or b""))
    except (ssl.SSLError, ValueError) as error:
        raise Unusable(f"the certificates of the kubeconfig cannot be used: {error}") from None
    # Authorities of older clusters lack extensions that Python 3.13 wants and kubectl does not.
    trust.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if access.insecure:
        trust.check_hostname = False
        trust.verify_mode = ssl.CERT_NONE
    return trust


def _show(trust: ssl.SSLContext, pem: bytes) -> None:
    """OpenSSL reads a certificate and its key from a file only; nobody else may read this one."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(pem)
        file.flush()
        trust.load_cert_chain(file.name)
