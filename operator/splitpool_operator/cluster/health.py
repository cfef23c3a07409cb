"""Is the operator alive? Not when its work stands still or its last listing is too long ago.

Its series are asked for at the same port.
"""

from collections.abc import Callable

from aiohttp import web

_STANDSTILL_SECONDS = 300.0
# A connection that asks nothing for so long is closed, also one that never asked.
IDLE_SECONDS = 60.0
_TEXT_FORMAT = "text/plain; version=0.0.4; charset=utf-8"


def complaint(standstill: float, since_sync: float, sync_seconds: float) -> str | None:
    """Why the process should be replaced, or None. All in seconds."""
    if standstill > _STANDSTILL_SECONDS:
        return f"pools are due, and none was done for {standstill:.0f} s"
    if since_sync > 3 * sync_seconds:
        return f"the last complete listing was {since_sync:.0f} s ago"
    return None


async def serve(
    ask: Callable[[], str | None], series: Callable[[], bytes], port: int
) -> web.AppRunner:
    """Answer /healthz and /metrics on every address until the runner is cleaned up."""

    async def healthz(_: web.Request) -> web.Response:
        trouble = ask()
        return web.Response(text=f"{trouble or 'ok'}\n", status=503 if trouble else 200)

    async def metrics(_: web.Request) -> web.Response:
        return web.Response(body=series(), headers={"Content-Type": _TEXT_FORMAT})

    app = web.Application()
    app.router.add_get("/healthz", healthz)
    app.router.add_get("/metrics", metrics)
    runner = web.AppRunner(app, access_log=None, keepalive_timeout=IDLE_SECONDS)
    await runner.setup()
    await web.TCPSite(runner, port=port).start()
    return runner
