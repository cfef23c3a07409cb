"""Which pools does a call of Alertmanager's webhook name? Nothing else of it is believed."""

import json
from typing import Any

_VERSION = "4"
# More than any sensible group; the rest is found by the next look at every pool.
_MOST = 1000


class Malformed(Exception):
    """The body is no call of Alertmanager's webhook."""


def named_pools(body: bytes) -> set[tuple[str, str]]:
    """Namespace and name of every pool that an alert is about. Raises Malformed."""
    try:
        payload = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise Malformed("the body is no JSON") from error
    if not isinstance(payload, dict) or payload.get("version") != _VERSION:
        raise Malformed(f'the body is no object with "version": "{_VERSION}"')
    alerts = payload.get("alerts")
    if not isinstance(alerts, list):
        raise Malformed('"alerts" is no list')
    return {key for alert in alerts[:_MOST] if (key := _pool(alert)) is not None}


def _pool(alert: Any) -> tuple[str, str] | None:
    labels = alert.get("labels") if isinstance(alert, dict) else None
    if not isinstance(labels, dict):
        return None
    namespace, pool = labels.get("namespace"), labels.get("pool")
    return (namespace, pool) if isinstance(namespace, str) and isinstance(pool, str) else None
