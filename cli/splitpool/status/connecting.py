"""Which API server is asked, as whom, in which namespace? As kubectl decides it."""

import difflib
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]
from kubernetes.aio import config as client_config
from kubernetes.aio.client import ApiClient, Configuration

from splitpool_operator.cluster.kube import Kube

_OWN_NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
_HOME = "~/.kube/config"
# Of a kubeconfig that is YAML, but of another shape than the client expects.
_MISSHAPEN = (client_config.ConfigException, yaml.YAMLError, AttributeError, TypeError, KeyError)


class Unconnected(Exception):
    """Nobody can be asked; the message says why and what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """An API server to ask."""

    kube: Kube
    server: str
    # Of the context; where it names none, as kubectl does.
    namespace: str


@asynccontextmanager
async def connected(kubeconfig: Path | None, context: str | None) -> AsyncIterator[Connection]:
    """The cluster of a kubeconfig, or the one that this process runs in. Raises Unconnected."""
    configuration = Configuration()
    namespace = await _configured(configuration, kubeconfig, context)
    async with ApiClient(configuration) as api:
        yield Connection(kube=Kube(api), server=configuration.host, namespace=namespace)


async def _configured(configuration: Any, kubeconfig: Path | None, context: str | None) -> str:
    """Fill in the server and the credentials; the namespace."""
    files = str(kubeconfig) if kubeconfig else os.environ.get("KUBECONFIG") or _HOME
    present = _present(files)
    if not present and kubeconfig is None and context is None and _inside(configuration):
        return _own_namespace()
    if not present:
        raise Unconnected(
            f"no kubeconfig: {files} is not there; name one with --kubeconfig or KUBECONFIG"
        )
    try:
        loader = await client_config.load_kube_config(
            config_file=os.pathsep.join(present),
            context=context,
            client_configuration=configuration,
            persist_config=False,
        )
        return str(loader.current_context["context"].get("namespace") or "default")
    except OSError as error:
        raise Unconnected(
            f"the kubeconfig {error.filename or files} cannot be read: {error.strerror or error}"
        ) from None
    except _MISSHAPEN as error:
        raise Unconnected(_complaint(files, present, context, error)) from None


def _present(files: str) -> list[str]:
    return [each for each in files.split(os.pathsep) if Path(each).expanduser().is_file()]


def _own_namespace() -> str:
    return _OWN_NAMESPACE.read_text().strip()


def _inside(configuration: Any) -> bool:
    try:
        client_config.load_incluster_config(client_configuration=configuration)
    except client_config.ConfigException:
        return False
    return True


def _complaint(files: str, present: list[str], context: str | None, error: Exception) -> str:
    """Most often it is the context that is not there."""
    try:
        found, _ = client_config.list_kube_config_contexts(os.pathsep.join(present))
        known = [str(each["name"]) for each in found]
    except _MISSHAPEN:
        known = []
    if context is None or context in known:
        said = " ".join(str(error).split())
        return f"the kubeconfig {files} cannot be used: {said}; check it with kubectl config view"
    close = difflib.get_close_matches(context, known, n=1)
    remedy = f"did you mean {close[0]}?" if close else f"known: {', '.join(known) or 'none'}"
    return f"context {context!r} is not in {files}; {remedy}"
