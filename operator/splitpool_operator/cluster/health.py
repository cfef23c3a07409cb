"""Is the operator alive? Not when its work stands still or its last listing is too long ago."""

from collections.abc import Callable

from aiohttp import web

_STANDSTILL_SECONDS = 300.0


def complaint(standstill: float, since_sync: float, sync_seconds: float) -> str | None:
    """Why the process should be replaced, or None. All in seconds."""
    if standstill > _STANDSTILL_SECONDS:
        return f"pools are due, and none was done for {standstill:.0f} s"
    if since_sync > 3 * sync_seconds:
        return f"the last complete listing was {since_sync:.0f} s ago"
    return None


async def serve(ask: Callable[[], str | None], port: int) -> web.AppRunner:
    """Answer /healthz on every address until the runner is cleaned up."""

    async def healthz(_: web.Request) -> web.Response:
        trouble = ask()
        return web.Response(text=f"{trouble or 'ok'}\n", status=503 if trouble else 200)

    app = web.Application()
    app.router.add_get("/healthz", healthz)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, port=port).start()
    return runner
