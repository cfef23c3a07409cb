"""kopf as the source of events, and nothing else: the only module that knows it.

`on.event` alone needs no finalizer and writes no annotation; what an event means is decided by
`intake`, what follows from it by the work queue. kopf takes every task of its event loop for its
own, waits for it and cancels it when it ends, so it runs in a thread with a loop of its own.
"""

import asyncio
import logging
import threading
from collections.abc import Callable, Mapping
from typing import Any

import kopf
from kubernetes.aio.client import Configuration

from splitpool_operator.cluster.intake import Intake
from splitpool_operator.cluster.kinds import POOL, WATCHED, Kind
from splitpool_operator.cluster.scope import Scope, selector

Take = Callable[[Kind, str | None, dict[str, Any]], None]

log = logging.getLogger("splitpool_operator")


class WatchesEnded(Exception):
    """The event source gave up; only a new process has one again."""


async def watch(
    intake: Intake, scope: Scope, connection: Configuration, *, stop: asyncio.Event
) -> None:
    """Feed the intake until stopped. Raises WatchesEnded."""
    loop, ended, flag = asyncio.get_running_loop(), asyncio.Event(), threading.Event()

    def tell(action: Callable[..., None], *arguments: Any) -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(action, *arguments)

    def take(kind: Kind, event: str | None, seen: dict[str, Any]) -> None:
        tell(intake.take, kind, event, seen)

    def run() -> None:
        try:
            asyncio.run(_operator(take, scope, connection, flag))
        except Exception:
            log.exception("the event source broke")
        finally:
            tell(ended.set)

    # A daemon: nothing that it does has to be finished when the process ends.
    threading.Thread(target=run, name="kopf", daemon=True).start()
    stopped = asyncio.create_task(stop.wait())
    over = asyncio.create_task(ended.wait())
    try:
        await asyncio.wait((stopped, over), return_when=asyncio.FIRST_COMPLETED)
    finally:
        flag.set()
        stopped.cancel()
        over.cancel()
    if not stop.is_set():
        raise WatchesEnded("the event source ended")


async def _operator(
    take: Take, scope: Scope, connection: Configuration, flag: threading.Event
) -> None:
    registry = kopf.OperatorRegistry()
    kopf.on.login(registry=registry)(_login(connection))
    for kind in WATCHED:
        kopf.on.event(kind.group, kind.version, kind.plural, registry=registry)(
            _handler(take, kind)
        )
    try:
        await kopf.operator(
            registry=registry,
            settings=_settings(),
            standalone=True,
            clusterwide=not scope.namespaces,
            namespaces=scope.namespaces,
            stop_flag=flag,
        )
    finally:
        # A thread of the loop's executor waits for the flag, and the loop's end for that thread.
        flag.set()


def _handler(take: Take, kind: Kind) -> Any:
    async def on_event(event: Mapping[str, Any], **_: Any) -> None:
        take(kind, event["type"], kind.typed(event["object"]))

    on_event.__qualname__ = f"on_{kind.plural}"
    return on_event


def _settings() -> kopf.OperatorSettings:
    settings = kopf.OperatorSettings()
    settings.peering.standalone = True
    settings.posting.enabled = False
    # The CRD is there before the operator starts; looking for others needs rights of its own.
    settings.scanning.disabled = True
    for kind in WATCHED:
        if kind is not POOL:
            labels = settings.watching.label_selectors
            labels[kind.group, kind.version, kind.plural] = selector(kind)
    return settings


def _login(connection: Configuration) -> Any:
    async def login(**_: Any) -> kopf.ConnectionInfo:
        if connection.refresh_api_key_hook is not None:
            await _refreshed(connection)
        scheme, _, token = connection.api_key.get("BearerToken", "").partition(" ")
        return kopf.ConnectionInfo(
            server=connection.host,
            ca_path=connection.ssl_ca_cert,
            insecure=not connection.verify_ssl,
            scheme=scheme if token else None,
            token=token or None,
            certificate_path=connection.cert_file,
            private_key_path=connection.key_file,
        )

    return login


async def _refreshed(connection: Configuration) -> None:
    """A service account's token is replaced on disk while the operator runs."""
    answer = connection.refresh_api_key_hook(connection)
    if asyncio.iscoroutine(answer):
        await answer
