"""Starts a worker: port, step log, model, engine, HTTP; and sees it to its end."""

import asyncio
import logging
import socket
import sys
from contextlib import ExitStack
from typing import TextIO

from prometheus_client import disable_created_metrics

from splitpool_worker.config import WorkerConfig
from splitpool_worker.exits import BAD_ARGUMENTS, Refused, refusing
from splitpool_worker.loading import load
from splitpool_worker.ops import OpsUnavailable
from splitpool_worker.serving import (
    Model,
    Stop,
    listening,
    running,
    serve_until_stopped,
    warm,
)

log = logging.getLogger(__name__)


def launch(config: WorkerConfig) -> int:
    """Serve until stopped; the exit code. Raises Refused."""
    with ExitStack() as stack:
        bound = stack.enter_context(_bind(config))
        step_log = stack.enter_context(_open(config.step_log)) if config.step_log else None
        log.info("loading %s", config.model)
        model = _load(config)
        disable_created_metrics()  # a second series for each one, which nobody reads
        with asyncio.Runner(loop_factory=_new_loop) as runner:
            return runner.run(_serve(config, model, bound, step_log))


def _new_loop() -> asyncio.AbstractEventLoop:
    if sys.platform == "linux":
        import uvloop

        return uvloop.new_event_loop()
    return asyncio.new_event_loop()


def _bind(config: WorkerConfig) -> socket.socket:
    """The socket, before anything slow: a port that is taken is known at once."""
    family = socket.AF_INET6 if ":" in config.host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((config.host, config.port))
    except OSError as error:
        bound.close()
        raise Refused(
            BAD_ARGUMENTS,
            "port_in_use",
            f"--port {config.port} on {config.host}: {error.strerror}; choose another one",
        ) from error
    return bound


def _open(path: str) -> TextIO:
    try:
        return open(path, "a", encoding="utf-8", buffering=1)
    except OSError as error:
        raise Refused(
            BAD_ARGUMENTS,
            "step_log_unwritable",
            f"--step-log {path}: {error.strerror}; choose a file where this user may write",
        ) from error


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
