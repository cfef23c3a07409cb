"""A worker from its configuration to its exit: load, listen, serve, drain, stop."""

import asyncio
import contextlib
import logging
import secrets
import signal
import socket
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TextIO

from aiohttp import web

from splitpool_worker.api.delivery import Delivery
from splitpool_worker.api.errors import shutting_down
from splitpool_worker.api.metrics import ClassMemory, Identity, Metrics
from splitpool_worker.api.server import application
from splitpool_worker.api.service import Intervals, Service
from splitpool_worker.api.streams import Registry
from splitpool_worker.config import ClassConfig, WorkerConfig
from splitpool_worker.engine.batch import Runner
from splitpool_worker.engine.engine import Engine
from splitpool_worker.fences.verdict import Fence
from splitpool_worker.schedule.limits import ClassLimits, WorkerLimits
from splitpool_worker.schedule.sequence import LatencyClass, Request, SamplingParams, TokenOutput
from splitpool_worker.text.tokenizer import TextModel

log = logging.getLogger(__name__)

MAX_REPLAY_STREAMS = 32  # full rings of ended streams that are kept at one time
ENGINE_STOP_SECONDS = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A loaded model: what runs it, its text side, and how its memory divides by class."""

    runner: Runner
    text: TextModel
    memory: Mapping[LatencyClass, ClassMemory]
    ops: str
    device: str  # GPU or host: workers that share it yield to one another
    fence: Fence
    bytes_per_second: float | None = None


def limits(config: WorkerConfig, model: Model) -> WorkerLimits:
    """What the engine may use."""
    return WorkerLimits(
        classes=tuple(_class_limits(part, config, model) for part in config.classes),
        block_size=config.block_size,
        max_model_len=model.runner.max_model_len,
        max_step_s=config.max_step_s,
        static=config.static,
        class_priority=config.class_priority,
        # Elsewhere, whether a guess was tried could change which token is drawn.
        draft_tokens=config.draft_tokens if model.runner.independent_rows else 0,
    )


def _class_limits(part: ClassConfig, config: WorkerConfig, model: Model) -> ClassLimits:
    memory = model.memory[part.cls]
    return ClassLimits(
        cls=part.cls,
        vram_bytes=part.vram_bytes,
        kv_blocks=memory.kv // (memory.kv_bytes_per_token * config.block_size),
        max_batch=part.max_batch,
        max_wait_s=part.max_wait_s,
        token_budget=part.token_budget,
        prefill_chunk=part.prefill_chunk,
        max_length_ratio=part.max_length_ratio,
        prefix_cache=part.prefix_cache,
    )


@contextlib.asynccontextmanager
async def running(
    config: WorkerConfig,
    model: Model,
    *,
    intervals: Intervals | None = None,
    step_log: TextIO | None = None,
) -> AsyncIterator[Service]:
    """A worker's parts with its engine running; everything has stopped afterwards."""
    delivery = Delivery(asyncio.get_running_loop())
    metrics = Metrics(
        Identity(pool=config.pool, namespace=config.namespace, model=config.model_name),
        model.memory,
        fence=model.fence,
        block_size=config.block_size,
        bytes_per_second=model.bytes_per_second,
    )
    engine = Engine(
        model.runner,
        limits(config, model),
        on_outputs=delivery.on_outputs,
        on_step=metrics.on_step,
        step_log=step_log,
    )
    service = Service(
        config=config,
        engine=engine,
        text=model.text,
        delivery=delivery,
        streams=Registry(
            window=config.resume_window_s,
            ring_bytes=config.resume_buffer_bytes,
            total_bytes=config.resume_buffer_bytes * MAX_REPLAY_STREAMS,
        ),
        metrics=metrics,
        memory=model.memory,
        max_model_len=model.runner.max_model_len,
        ops=model.ops,
        device=model.device,
        fence=model.fence,
        stream_key=secrets.token_hex(4),
        intervals=intervals or Intervals(),
    )
    engine.start()
    sweeper = asyncio.create_task(_sweep(service))
    try:
        yield service
    finally:
        sweeper.cancel()
        service.fail_all(shutting_down())
        service.bodies.close()
        await asyncio.to_thread(engine.stop, ENGINE_STOP_SECONDS)


async def _sweep(service: Service) -> None:
    while True:
        await asyncio.sleep(service.intervals.sweep)
        async with service.swept:
            service.sweep()
            service.swept.notify_all()


async def _until(service: Service, condition: Callable[[], bool]) -> None:
    """Until the condition holds, looked at after every sweep."""
    async with service.swept:
        await service.swept.wait_for(condition)


@contextlib.asynccontextmanager
async def listening(service: Service, bound: socket.socket) -> AsyncIterator[None]:
    """The HTTP side on a bound socket."""
    runner = web.AppRunner(
        application(service),
        handler_cancellation=True,
        access_log=None,
        shutdown_timeout=service.intervals.closing,
    )
    await runner.setup()
    try:
        await web.SockSite(runner, bound, backlog=1024).start()
        yield
    finally:
        await runner.cleanup()


async def warm(service: Service) -> None:
    """Run one request of each class, so that the first client meets a worker that has worked."""
    for part in service.config.classes:
        probe = _Probe()
        request = Request(
            id=f"warm-up-{part.cls}",
            cls=part.cls,
            prompt=(0, 1, 2, 3),
            max_tokens=2,
            params=SamplingParams(seed=0, temperature=0.0, ignore_eos=True),
            arrival=service.clock(),
        )
        service.delivery.expect(request.id, probe)
        service.engine.submit(request)
        await probe.answered
        service.delivery.forget(request.id)


class _Probe:
    """Waits for the end of one request."""

    def __init__(self) -> None:
        self.answered: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def deliver(self, output: TokenOutput, now: float) -> None:
        if output.error is not None:
            self.answered.set_exception(RuntimeError(f"warm-up failed: {output.error}"))
        elif output.finish is not None:
            self.answered.set_result(None)

    def broke(self, error: Exception) -> None:
        self.answered.set_exception(error)


async def drain(service: Service) -> None:
    """Take nothing new; wait for the running requests up to the limit, then for the windows of
    the streams that can still be resumed."""
    service.draining = True
    log.info("draining: %d requests are running", len(service.live))
    deadline = service.clock() + service.config.drain_s
    await _until(service, lambda: not service.live or service.clock() >= deadline)
    service.fail_all(shutting_down())
    await _until(service, lambda: not list(service.streams))


class Stop:
    """What ends a worker: SIGTERM drains, a second one or SIGINT stops at once."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.drain = asyncio.Event()
        self.now = asyncio.Event()
        loop.add_signal_handler(signal.SIGTERM, self._terminate)
        loop.add_signal_handler(signal.SIGINT, self.now.set)

    def _terminate(self) -> None:
        (self.now if self.drain.is_set() else self.drain).set()


async def serve_until_stopped(service: Service, stop: Stop) -> int:
    """0 after a drain or a stop, 1 when the engine has failed."""
    ends = [
        asyncio.create_task(_drained(service, stop)),
        asyncio.create_task(stop.now.wait()),
        asyncio.create_task(_engine_failed(service)),
    ]
    await _first(ends)
    service.fail_all(shutting_down())  # while there still are connections to say it on
    return 0 if service.engine.alive else 1


async def _drained(service: Service, stop: Stop) -> None:
    await stop.drain.wait()
    await drain(service)


async def _engine_failed(service: Service) -> None:
    await _until(service, lambda: not service.engine.alive)
    log.error("the engine has failed; the worker ends")


async def _first(tasks: Sequence["asyncio.Task[object]"]) -> None:
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in tasks:
        task.cancel()
    for result in await asyncio.gather(*tasks, return_exceptions=True):
        if isinstance(result, Exception):
            raise result
