"""Takes Alertmanager's calls, which only make the operator look sooner.

A call names pools; what becomes of them is decided by what Prometheus says. So forged, repeated
and lost calls change nothing.
"""

import asyncio
import hmac
import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from aiohttp import web

from splitpool_operator.autoscaling.alerts import Malformed, named_pools
from splitpool_operator.cluster import health

log = logging.getLogger("splitpool_operator")

PATH = "/alerts"
_MOST_BYTES = 1024**2
_BODY_SECONDS = 10.0

Key = tuple[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Webhook:
    """The endpoint of one replica."""

    # Read at every call, since a Secret's file is replaced while the operator runs.
    token_file: Path
    # Whether this replica acts; another's calls are Alertmanager's to repeat.
    leading: Callable[[], bool]
    look: Callable[[set[Key]], None]
    told: Callable[[str], None] = lambda result: None

    async def serve(self, port: int) -> web.AppRunner:
        """Answer on every address until the runner is cleaned up."""
        app = web.Application(client_max_size=_MOST_BYTES)
        app.router.add_post(PATH, self._take)
        runner = web.AppRunner(app, access_log=None, keepalive_timeout=health.IDLE_SECONDS)
        await runner.setup()
        await web.TCPSite(runner, port=port).start()
        return runner

    async def _take(self, request: web.Request) -> web.Response:
        """204; 4xx, which Alertmanager drops, or 503, which it repeats."""
        response, result = await self._answer(request)
        self.told(result)
        return response

    async def _answer(self, request: web.Request) -> tuple[web.Response, str]:
        if not self._permits(request.headers.get("Authorization", "")):
            headers = {"WWW-Authenticate": "Bearer"}
            return web.Response(status=401, headers=headers), "unauthorized"
        if not self.leading():
            standby = web.Response(status=503, headers={"Retry-After": "2"})
            # A Service chooses a replica for each connection, and Alertmanager keeps one.
            standby.force_close()
            return standby, "standby"
        try:
            async with asyncio.timeout(_BODY_SECONDS):
                body = await request.read()
            pools = named_pools(body)
        except TimeoutError:
            return web.Response(status=408), "slow"
        except web.HTTPRequestEntityTooLarge:
            return web.Response(status=413), "large"
        except (web.RequestPayloadError, ConnectionError):
            # Cut off, or packed otherwise than it says.
            return web.Response(status=400), "malformed"
        except Malformed as error:
            return web.Response(status=400, text=f"{error}\n"), "malformed"
        self.look(pools)
        return web.Response(status=204), "taken"

    def _permits(self, given: str) -> bool:
        try:
            token = self.token_file.read_bytes().strip()
        except OSError as error:
            log.warning("the webhook's token cannot be read", extra={"why": str(error)})
            return False
        scheme, _, offered = given.partition(" ")
        if not token or scheme.lower() != "bearer":
            return False
        return hmac.compare_digest(offered.strip().encode(errors="replace"), token)
