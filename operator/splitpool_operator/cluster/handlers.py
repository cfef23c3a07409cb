"""kopf as the source of events, and nothing else: the only module that knows it.

`on.event` alone needs no finalizer and writes no annotation; what an event means is decided by
`intake`, what follows from it by the work queue.
"""

import asyncio
from collections.abc import Mapping
from typing import Any

import kopf
from kubernetes.aio.client import Configuration

from splitpool_operator.cluster.intake import Intake
from splitpool_operator.cluster.kinds import POOL, WATCHED, Kind
from splitpool_operator.cluster.scope import Scope, selector


async def watch(
    intake: Intake, scope: Scope, connection: Configuration, *, stop: asyncio.Event
) -> None:
    """Feed the intake until stopped."""
    registry = kopf.OperatorRegistry()
    kopf.on.login(registry=registry)(_login(connection))
    for kind in WATCHED:
        handler = _handler(intake, kind)
        kopf.on.event(kind.group, kind.version, kind.plural, registry=registry)(handler)
    await kopf.operator(
        registry=registry,
        settings=_settings(),
        standalone=True,
        clusterwide=not scope.namespaces,
        namespaces=scope.namespaces,
        stop_flag=stop,
    )


def _handler(intake: Intake, kind: Kind) -> Any:
    async def on_event(event: Mapping[str, Any], **_: Any) -> None:
        intake.take(kind, event["type"], kind.typed(event["object"]))

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
