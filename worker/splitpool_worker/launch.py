"""Starts a worker: model, engine, HTTP; and sees it to its end."""

import asyncio
import logging
import socket
from typing import TextIO

from prometheus_client import disable_created_metrics

from splitpool_serving import event_loop
from splitpool_worker.config import WorkerConfig
from splitpool_worker.exits import BAD_ARGUMENTS, Refused, refusing
from splitpool_worker.loading import load
from splitpool_worker.ops.choice import OpsUnavailable
from splitpool_worker.serving import (
    Model,
    Stop,
    listening,
    running,
    serve_until_stopped,
    warm,
)

log = logging.getLogger(__name__)


def launch(config: WorkerConfig, bound: socket.socket, step_log: TextIO | None) -> int:
    """Serve on a bound socket until stopped; the exit code. Raises Refused."""
    model = _load(config)
    disable_created_metrics()  # type: ignore[no-untyped-call]
    with asyncio.Runner(loop_factory=event_loop.new) as runner:
        return runner.run(_serve(config, model, bound, step_log))


def _load(config: WorkerConfig) -> Model:
    try:
        with refusing():
            return load(config)
    except OpsUnavailable as error:
        raise Refused(BAD_ARGUMENTS, "ops_unavailable", str(error)) from error


async def _serve(
    config: WorkerConfig, model: Model, bound: socket.socket, step_log: TextIO | None
) -> int:
    stop = Stop(asyncio.get_running_loop())
    async with running(config, model, step_log=step_log) as service:
        service.ready = False
        async with listening(service, bound):
            log.info("warming")
            await warm(service)
            service.ready = True
            log.info("ready on port %d", bound.getsockname()[1])
            code = await serve_until_stopped(service, stop)
            log.info("stopping")
            return code
