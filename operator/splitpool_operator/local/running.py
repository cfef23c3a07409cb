"""How do the router and the workers of this machine live together, from start to drained stop?"""

import asyncio
import os
import secrets
import signal
import time
from collections.abc import Callable
from pathlib import Path

import aiohttp

from splitpool_operator.declaration import defaults
from splitpool_operator.local import ports
from splitpool_operator.local.console import Console
from splitpool_operator.local.endpoints import EndpointsFile
from splitpool_operator.local.options import Options
from splitpool_operator.local.progress import Progress
from splitpool_operator.local.supervise import GivenUp, Run, Supervised
from splitpool_operator.local.welcome import welcome
from splitpool_operator.planning.plan import Plan, WorkerPlan

ROUTER = "router"
_WORKER_HOST = "127.0.0.1"
# Workers are reached through the router only: once it has ended, nobody waits for them.
_WORKER_STOP = ((signal.SIGTERM, 2.0), (signal.SIGINT, 5.0))
# Beside its own limit, so that the router ends its last streams itself.
_ROUTER_GRACE = 5.0
_WRITE_AGAIN_SECONDS = 1.0
_AT_ONCE = ((signal.SIGINT, 1.0),)
_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Running:
    """One run of `splitpool up`."""

    def __init__(
        self, plans: list[Plan], options: Options, console: Console, state: Path, logs: Path
    ) -> None:
        self._plans, self._options, self._console = plans, options, console
        self._state, self._logs = state, logs
        self._token = secrets.token_hex(32)
        self._caller_key = secrets.token_hex(32)
        self._workers = [(plan, worker) for plan in plans for worker in plan.workers]
        names = [ROUTER, *(worker.name for _, worker in self._workers)]
        self._width = max(map(len, names))
        self._progress = Progress(console, names, time.monotonic)
        self._endpoints = EndpointsFile(
            state / "endpoints.json", [defaults.filled(plan.pool) for plan in plans]
        )
        self._welcomed = False
        self._untold = False
        self._stops: asyncio.Queue[signal.Signals] = asyncio.Queue()
        self._url = f"http://{_reachable(options.host)}:{options.port}"

    async def run(self) -> int:
        loop = asyncio.get_running_loop()
        for number in _STOP_SIGNALS:
            loop.add_signal_handler(number, self._stops.put_nowait, number)
        if self._options.state_dir is not None:
            (self._state / "steps").mkdir(exist_ok=True)
        async with aiohttp.ClientSession() as session:
            router = self._router(session)
            workers = [self._worker(session, *pair) for pair in self._workers]
            return await self._serve(router, workers)

    async def _serve(self, router: Supervised, workers: list[Supervised]) -> int:
        tasks = [asyncio.create_task(each.run()) for each in (router, *workers)]
        showing = asyncio.create_task(self._show())
        told = asyncio.create_task(self._stops.get())
        code = await self._until_stop(tasks, told)
        showing.cancel()
        self._progress.stop()
        if told.done():
            self._console.say(f"splitpool: {told.result().name}: draining (again: stop at once)")
        await self._stop(router, workers)
        await asyncio.gather(*tasks, return_exceptions=True)
        told.cancel()
        self._console.say("splitpool: stopped")
        return code

    async def _until_stop(
        self, tasks: list[asyncio.Task[None]], told: "asyncio.Task[signal.Signals]"
    ) -> int:
        """0 at a signal; another code when the router or, before all are ready, anything ended."""
        router = tasks[0]
        running = set(tasks)
        while True:
            done, _ = await asyncio.wait([*running, told], return_when=asyncio.FIRST_COMPLETED)
            if told in done:
                return 0
            for task in done & running:
                running.discard(task)
                lost = task.exception()
                if not isinstance(lost, GivenUp):
                    raise lost or AssertionError("a supervisor ended without being told to")
                self._console.say(f"splitpool: {lost}")
                last = running <= {router}
                if task is router or last or not self._welcomed:
                    return lost.code
                self._console.say(f"splitpool: going on without {lost.name}")

    async def _stop(self, router: Supervised, workers: list[Supervised]) -> None:
        """The router first, so that what it has accepted is answered; a second signal: now."""
        drain = max((worker.drain_seconds for _, worker in self._workers), default=0)
        draining = asyncio.create_task(self._drain(router, workers, float(drain)))
        again = asyncio.create_task(self._stops.get())
        await asyncio.wait([draining, again], return_when=asyncio.FIRST_COMPLETED)
        if not draining.done():
            self._console.say("splitpool: stopping at once")
            draining.cancel()
            await asyncio.gather(*(each.stop(_AT_ONCE) for each in (router, *workers)))
        again.cancel()

    async def _drain(self, router: Supervised, workers: list[Supervised], seconds: float) -> None:
        for worker in workers:
            worker.stay_down()
        await router.stop(((signal.SIGTERM, seconds + _ROUTER_GRACE),))
        self._list(self._endpoints.terminate)
        await asyncio.gather(*(worker.stop(_WORKER_STOP) for worker in workers))

    async def _show(self) -> None:
        """Keep the live line moving until everything is ready, then say how to use it."""
        while not self._progress.all_ready:
            self._progress.draw()
            await asyncio.sleep(0.1)
        self._progress.draw()
        self._welcomed = True
        models = [plan.pool.spec.model.name for plan in self._plans]
        self._console.say(welcome(self._url, models))

    def _list(self, change: Callable[[], None]) -> None:
        """Tell the router of a change, if not now then once the disk takes it."""
        try:
            change()
            self._untold = False
        except OSError as error:
            if not self._untold:
                self._untold = True
                text = f"endpoints.json cannot be written: {error.strerror}; tried every second"
                self._console.say(f"splitpool: {text}")
            loop = asyncio.get_running_loop()
            loop.call_later(_WRITE_AGAIN_SECONDS, self._list, self._endpoints.write)

    def _router(self, session: aiohttp.ClientSession) -> Supervised:
        options = self._options
        command = (
            *options.programs.router,
            *("--host", options.host, "--port", str(options.port)),
            *("--endpoints", str(self._state / "endpoints.json")),
            *options.router_flags,
        )
        env = self._env() | {"SPLITPOOL_CALLER_KEY": self._caller_key}
        run = Run(command=command, env=env, url=self._url)
        return self._supervised(session, ROUTER, lambda: run, lambda _: None, lambda: None)

    def _worker(self, session: aiohttp.ClientSession, plan: Plan, worker: WorkerPlan) -> Supervised:
        def prepare() -> Run:
            port = ports.free(_WORKER_HOST)
            return Run(
                command=self._command(worker, port),
                env=self._env() | dict(worker.env),
                url=f"http://{_WORKER_HOST}:{port}",
            )

        return self._supervised(
            session,
            worker.name,
            prepare,
            lambda run: self._list(lambda: self._endpoints.put(plan, worker, run.url)),
            lambda: self._list(lambda: self._endpoints.remove(worker.name)),
        )

    def _command(self, worker: WorkerPlan, port: int) -> list[str]:
        command = [*self._options.programs.worker, "--host", _WORKER_HOST, "--port", str(port)]
        if self._options.state_dir is not None:
            command += ["--step-log", str(self._state / "steps" / f"{worker.name}.jsonl")]
        return [*command, *self._options.worker_flags, *worker.argv]

    def _supervised(
        self,
        session: aiohttp.ClientSession,
        name: str,
        prepare: Callable[[], Run],
        started: Callable[[Run], None],
        ended: Callable[[], None],
    ) -> Supervised:
        return Supervised(
            name=name,
            prepare=prepare,
            started=started,
            ended=ended,
            sink=self._console.prefixed(name, self._width, self._logs / f"{name}.log"),
            progress=self._progress,
            session=session,
            timing=self._options.timing,
        )

    def _env(self) -> dict[str, str]:
        """Our environment without a wait policy that would undo the plan's, plus the secret."""
        inherited = {k: v for k, v in os.environ.items() if k != "OMP_WAIT_POLICY"}
        return inherited | {"PYTHONUNBUFFERED": "1", "SPLITPOOL_INTERNAL_TOKEN": self._token}


def _reachable(host: str) -> str:
    """An address of this machine under which the host that is listened on answers."""
    if host in {"0.0.0.0", "::", ""}:
        return "127.0.0.1"
    return f"[{host}]" if ":" in host else host
