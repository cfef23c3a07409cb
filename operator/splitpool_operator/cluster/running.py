"""The operator as a process: connect, wait for the lease, list, watch, work, list again."""

import asyncio
import datetime
import logging
import signal
import time
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
from kubernetes.aio import config as client_config
from kubernetes.aio.client import ApiClient, Configuration

from splitpool_operator.autoscaling.state import Pace
from splitpool_operator.cluster import handlers, health
from splitpool_operator.cluster.handlers import WatchesEnded
from splitpool_operator.cluster.intake import Intake
from splitpool_operator.cluster.kube import Kube, Refused, Unavailable
from splitpool_operator.cluster.leader import Lease, LeaseLost, lead
from splitpool_operator.cluster.pool_series import PoolSeries
from splitpool_operator.cluster.probing import HttpProbe
from splitpool_operator.cluster.prometheus import Prometheus, Source
from splitpool_operator.cluster.reconcile import Reconciler
from splitpool_operator.cluster.routers import Routers
from splitpool_operator.cluster.scaling import Autoscaler
from splitpool_operator.cluster.scope import Scope
from splitpool_operator.cluster.series import Series
from splitpool_operator.cluster.store import Key, Store
from splitpool_operator.cluster.syncing import sync
from splitpool_operator.cluster.waking import Waking
from splitpool_operator.cluster.webhook import Webhook
from splitpool_operator.cluster.working import Work
from splitpool_operator.rendering.installation import Installation

log = logging.getLogger("splitpool_operator")

_RETRY_SECONDS = 2.0
# After an outage all watches begin anew at about the same time.
_AFTER_RELIST_SECONDS = 3.0
_STOP_SECONDS = 5.0
EXIT_LOST = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What the command line says."""

    scope: Scope
    installation: Installation
    identity: str
    lease: Lease
    health_port: int
    sync_seconds: float
    router: tuple[str, int] | None
    # None: routers want no API key.
    router_key_file: Path | None
    pace: Pace
    prometheus: Source | None
    webhook_port: int
    # None: no webhook.
    webhook_token_file: Path | None


class Operator:
    """One replica while it leads."""

    def __init__(self, options: Options, api: ApiClient, http: aiohttp.ClientSession) -> None:
        key_file = options.router_key_file
        routers = Routers(http, options.router, key_file) if options.router else None
        self._options = options
        self._api = api
        self._store = Store()
        self.series = Series(lambda: self._work.due(), PoolSeries(self._store))
        self._kube = Kube(api, self.series.wrote)
        self._prometheus = Prometheus(options.pace, options.prometheus, told=self.series.read)
        self._waking = Waking(self._store, routers, lambda key: self._work.add(key))
        reconciler = Reconciler(
            store=self._store,
            kube=self._kube,
            probe=HttpProbe(http, routers),
            autoscaler=Autoscaler(
                self._store, self._prometheus, options.pace, self._waking.waiting
            ),
            scaled=self.series.scaled,
            installation=options.installation,
            now=now,
        )
        self._work = Work(reconciler.reconcile, told=self.series.reconciled)
        self._synced = time.monotonic()
        self._relisted = asyncio.Event()

    def complaint(self) -> str | None:
        """Why the process should be replaced, or None."""
        since = time.monotonic() - self._synced
        return health.complaint(self._work.standstill(), since, self._options.sync_seconds)

    async def act(self, stop: asyncio.Event) -> None:
        """Everything that only the leader does, until stopped."""
        self._synced = time.monotonic()
        await self._sync_until_done()
        for key in self._store.pools():
            self._work.add(key)
        intake = Intake(store=self._store, enqueue=self._work.add, relisted=self._relisted.set)
        background = [
            asyncio.create_task(self._work.run()),
            asyncio.create_task(self._keep_synced()),
            asyncio.create_task(self._waking.run()),
        ]
        try:
            await handlers.watch(intake, self._options.scope, self._api.configuration, stop=stop)
        finally:
            for task in background:
                task.cancel()
            await asyncio.gather(*background, return_exceptions=True)
            self._prometheus.close()

    def look(self, named: set[Key]) -> None:
        """Alertmanager has named pools: what is known of their signals may be old."""
        self._prometheus.expire()
        for key in named:
            if self._store.pool(key) is not None:
                self._work.add(key)

    async def _sync_until_done(self) -> None:
        """A listing; the API server may be away, or the CRD still on its way."""
        while True:
            try:
                await self._sync()
                return
            except (Unavailable, Refused) as error:
                log.warning("cannot list", extra={"why": str(error)})
                pause = error.after if isinstance(error, Unavailable) else 0.0
                await asyncio.sleep(max(pause, _RETRY_SECONDS))

    async def _keep_synced(self) -> None:
        """List everything now and then and look at every pool; and list when watches began anew."""
        while True:
            anew = await self._begun_anew()
            await self._sync_until_done()
            if not anew:
                for key in self._store.pools():
                    self._work.add(key)

    async def _begun_anew(self) -> bool:
        """Whether a watch began with a listing before the next listing is due."""
        try:
            async with asyncio.timeout(self._options.sync_seconds):
                await self._relisted.wait()
        except TimeoutError:
            return False
        await asyncio.sleep(_AFTER_RELIST_SECONDS)
        self._relisted.clear()
        return True

    async def _sync(self) -> None:
        missed = await sync(self._kube, self._store, self._options.scope)
        self._synced = time.monotonic()
        log.info("listed", extra={**self._store.sizes(), "missed": len(missed)})
        for key in missed:
            self._work.add(key)


async def run(options: Options) -> int:
    """Run until a signal or until the lease is lost; the exit status."""
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    connection = await connect()
    async with ApiClient(connection) as api, aiohttp.ClientSession() as http:
        operator = Operator(options, api, http)
        leading = False

        async def act() -> None:
            nonlocal leading
            leading = True
            await operator.act(stop)

        servers = [
            await health.serve(
                lambda: operator.complaint() if leading else None,
                operator.series.text,
                options.health_port,
            )
        ]
        if options.webhook_token_file is not None:
            webhook = Webhook(
                token_file=options.webhook_token_file,
                leading=lambda: leading,
                look=operator.look,
                told=operator.series.called,
            )
            servers.append(await webhook.serve(options.webhook_port))
        try:
            await _until_stopped(stop, lead(api, options.lease, options.identity, act))
        except (LeaseLost, WatchesEnded) as lost:
            log.error("leaving", extra={"why": str(lost)})
            return EXIT_LOST
        finally:
            await asyncio.gather(*(server.cleanup() for server in servers))
    return 0


async def _until_stopped(stop: asyncio.Event, leading: Coroutine[Any, Any, None]) -> None:
    """A replica that waits for the lease has nothing to finish; one that leads ends by itself."""
    task = asyncio.create_task(leading)
    stopped = asyncio.create_task(stop.wait())
    await asyncio.wait((task, stopped), return_when=asyncio.FIRST_COMPLETED)
    stopped.cancel()
    _, running = await asyncio.wait((task,), timeout=_STOP_SECONDS)
    if running:
        task.cancel()
    with suppress(asyncio.CancelledError):
        await task


async def connect() -> Configuration:
    """The API server of KUBECONFIG, or of the cluster that this process runs in."""
    connection = Configuration()
    try:
        client_config.load_incluster_config(client_configuration=connection)
    except client_config.ConfigException:
        await client_config.load_kube_config(client_configuration=connection)
    return connection


def now() -> str:
    """RFC 3339 to the second."""
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
