"""The shortest correct streaming proxy of aiohttp: what is there to compare a router with?

`python -m splitpool_bench.proxying.passthrough --port N --upstream URL`. One client session, the
answer chunk by chunk; it knows no pools, no classes and no events. Same event loop as the router.
"""

import argparse
import asyncio

import aiohttp
from aiohttp import web

from splitpool_serving import event_loop


async def serve(port: int, upstream: str) -> None:
    """Forwards until it is killed."""
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0),
        timeout=aiohttp.ClientTimeout(total=None),
        auto_decompress=False,
    ) as client:

        async def forward(request: web.Request) -> web.StreamResponse:
            async with client.request(
                request.method,
                upstream + request.path_qs,
                data=await request.read(),
                headers={"Content-Type": request.content_type},
            ) as answer:
                kept = {"Content-Type": answer.headers["Content-Type"]}
                out = web.StreamResponse(status=answer.status, headers=kept)
                await out.prepare(request)
                async for chunk in answer.content.iter_any():
                    await out.write(chunk)
                await out.write_eof()
                return out

        app = web.Application()
        app.router.add_route("*", "/{path:.*}", forward)
        runner = web.AppRunner(app, handler_cancellation=True, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", port, backlog=1024).start()
        await asyncio.Event().wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--upstream", required=True, help="URL of the worker")
    options = parser.parse_args()
    with asyncio.Runner(loop_factory=event_loop.new) as runner:
        runner.run(serve(options.port, options.upstream))


if __name__ == "__main__":
    main()
