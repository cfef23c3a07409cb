"""`python -m splitpool_router`: listens, drains on the first SIGTERM, stops on the next signal."""

import asyncio
import errno
import logging
import os
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from aiohttp import web

from splitpool_kube.access import NoAccess
from splitpool_router.app import Router, running
from splitpool_router.cluster.connection import access
from splitpool_router.cluster.discovery import following
from splitpool_router.config import BadConfig, Config, parse
from splitpool_router.fleet.discovery import Discovery, FileDiscovery
from splitpool_serving import event_loop, heap

log = logging.getLogger("splitpool_router")

# The workers' 75 s as well: clients behind proxies with 60 s never meet a closed connection.
_KEEPALIVE = 75.0
# Connections of a flood that wait to be accepted; one that is dropped comes back after a second.
_BACKLOG = 1024
# Bodies from this size on stay out of the heap.
_MAPPED_BYTES = 256 * 1024


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the router; 0 after a stop, 2 for arguments or a port that cannot be used."""
    try:
        config = parse(sys.argv[1:] if argv is None else argv, os.environ)
    except BadConfig as error:
        print(f"splitpool-router: {error}", file=sys.stderr)
        return 2
    _log_to_stderr()
    heap.keep_small(_MAPPED_BYTES)
    with asyncio.Runner(loop_factory=event_loop.new) as runner:
        try:
            return runner.run(serve(config))
        except NoAccess as error:
            print(f"splitpool-router: --cluster: {error}", file=sys.stderr)
            return 2


async def serve(config: Config) -> int:
    """Serves until told to stop."""
    stop = _Stop()
    async with _discovery(config) as discovery, running(config, discovery) as router:
        runner = web.AppRunner(
            router.app(),
            handler_cancellation=True,
            access_log=log if config.access_log else None,
            access_log_format='"%r" %s %bB %Tfs %{X-Splitpool-Class}o %{X-Request-Id}o',
            keepalive_timeout=_KEEPALIVE,
            shutdown_timeout=1.0,
        )
        await runner.setup()
        try:
            await web.TCPSite(runner, config.host, config.port, backlog=_BACKLOG).start()
        except OSError as error:
            print(f"splitpool-router: {_why_not(config, error)}", file=sys.stderr)
            await runner.cleanup()
            return 2
        host, port = runner.addresses[0][:2]
        print(f"splitpool-router listens on http://{host}:{port}", file=sys.stderr, flush=True)
        await stop.drain.wait()
        await _drain(router, stop)
        await runner.cleanup()
    return 0


@asynccontextmanager
async def _discovery(config: Config) -> AsyncIterator[Discovery]:
    """Where pools and workers are found. Raises NoAccess."""
    if config.endpoints is not None:
        yield FileDiscovery(config.endpoints)
        return
    async with following(access(os.environ), config.namespaces) as discovery:
        yield discovery


async def _drain(router: Router, stop: "_Stop") -> None:
    """Lets running requests finish within the pools' limit, or until the next signal."""
    if not stop.now.is_set():
        log.info("draining: %d requests run, limit %.0f s", router.active, router.drain_limit)
        router.drain()
        waits = [asyncio.create_task(wait) for wait in (router.idle.wait(), stop.now.wait())]
        await asyncio.wait(waits, timeout=router.drain_limit, return_when=asyncio.FIRST_COMPLETED)
        for wait in waits:
            wait.cancel()
    if router.active:
        await router.cut()


class _Stop:
    """The two steps of stopping, driven by signals."""

    def __init__(self) -> None:
        self.drain = asyncio.Event()
        self.now = asyncio.Event()
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, self._terminate)
        loop.add_signal_handler(signal.SIGINT, self._interrupt)

    def _terminate(self) -> None:
        if self.drain.is_set():
            self.now.set()
        self.drain.set()

    def _interrupt(self) -> None:
        self.now.set()
        self.drain.set()


def _why_not(config: Config, error: OSError) -> str:
    where = f"port {config.port} on {config.host}"
    if error.errno == errno.EADDRINUSE:
        return f"{where} is already in use: stop what listens there or give another --port"
    return f"cannot listen on {where}: {error.strerror or error}"


def _log_to_stderr() -> None:
    logging.basicConfig(
        level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(levelname)s %(message)s"
    )
    # Garbage bytes on a port are answered with 400; they are no news and no traceback.
    logging.getLogger("aiohttp.server").setLevel(logging.CRITICAL)


if __name__ == "__main__":
    sys.exit(main())
