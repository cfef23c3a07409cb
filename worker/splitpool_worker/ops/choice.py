"""Which implementation of the operations does a worker run on?"""

import logging

import torch

from splitpool_worker.ops.compiling import BuildFailed
from splitpool_worker.ops.cpu import CpuOps
from splitpool_worker.ops.interface import Ops
from splitpool_worker.ops.reference import ReferenceOps

log = logging.getLogger(__name__)


class OpsUnavailable(Exception):
    """The operations asked for by name cannot run here; the message says why."""


def choose(name: str, device: torch.device, *, unsupported: str | None = None) -> Ops:
    """`reference`, `cpu`, or with `auto` the fastest that runs here.

    `unsupported` is why the model's shape is none for the C++ operations. Raises OpsUnavailable.
    """
    if name == "reference" or (name == "auto" and device.type != "cpu"):
        return ReferenceOps()
    try:
        if device.type != "cpu" or unsupported:
            raise BuildFailed(unsupported or f"they do not run on {device.type}")
        return CpuOps(torch.get_num_threads())
    except BuildFailed as error:
        if name != "auto":
            raise OpsUnavailable(f"--ops {name}: {error}; use --ops reference or auto") from error
        log.warning("running on the slower reference operations: %s", error)
        return ReferenceOps()
