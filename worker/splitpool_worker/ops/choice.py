"""Which implementation of the operations does a worker run on?"""

import logging

import torch

from splitpool_worker.ops.compiling import BuildFailed
from splitpool_worker.ops.cpu import CpuOps
from splitpool_worker.ops.cpu_int8 import CpuInt8Ops
from splitpool_worker.ops.interface import Ops
from splitpool_worker.ops.reference import ReferenceOps
from splitpool_worker.ops.reference_int8 import ReferenceInt8Ops

log = logging.getLogger(__name__)


class OpsUnavailable(Exception):
    """The operations asked for by name cannot run here; the message says why."""


def choose(
    name: str,
    device: torch.device,
    *,
    quantization: str = "none",
    dtype: torch.dtype = torch.bfloat16,
    unsupported: str | None = None,
) -> Ops:
    """`reference`, `cpu`, or with `auto` the fastest that runs here.

    `unsupported` is why the model's shape is none for the C++ operations. Raises OpsUnavailable.
    """
    if quantization == "int8" and device.type != "cpu":
        raise OpsUnavailable(f"--quantization int8 does not run on {device.type}; leave it out")

    def reference() -> Ops:
        return ReferenceInt8Ops(dtype) if quantization == "int8" else ReferenceOps()

    if name == "reference" or (name == "auto" and device.type != "cpu"):
        return reference()
    try:
        if device.type != "cpu" or unsupported:
            raise BuildFailed(unsupported or f"they do not run on {device.type}")
        threads = torch.get_num_threads()
        return CpuInt8Ops(threads, dtype) if quantization == "int8" else CpuOps(threads)
    except BuildFailed as error:
        if name != "auto":
            raise OpsUnavailable(f"--ops {name}: {error}; use --ops reference or auto") from error
        log.warning("running on the slower reference operations: %s", error)
        return reference()
