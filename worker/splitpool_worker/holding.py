"""What a worker takes hold of before anything slow: its port and its step log."""

import socket
from typing import TextIO

from splitpool_worker.config import WorkerConfig
from splitpool_worker.exits import BAD_ARGUMENTS, Refused


def bind(config: WorkerConfig) -> socket.socket:
    """A socket on the port, not yet listening. Raises Refused."""
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


def open_step_log(path: str) -> TextIO:
    """The file, for appending. Raises Refused."""
    try:
        return open(path, "a", encoding="utf-8", buffering=1)
    except OSError as error:
        raise Refused(
            BAD_ARGUMENTS,
            "step_log_unwritable",
            f"--step-log {path}: {error.strerror}; choose a file where this user may write",
        ) from error
