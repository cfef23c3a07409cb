"""What does this process see of its GPU? Not yet run on one."""

import ctypes
import os
from collections.abc import Mapping
from pathlib import Path

import torch

from splitpool_worker.fences.verdict import MEBIBYTE, Gpu

_COMPUTE_MODE, _MPS_ENABLED = 20, 133  # CUdevice_attribute of <cuda.h>
_EXCLUSIVE_PROCESS = 3  # CUcomputemode
_INTERPOSER = "libvgpu.so"  # HAMi's


def look(env: Mapping[str, str] = os.environ, maps: Path = Path("/proc/self/maps")) -> Gpu:
    """The first GPU, the only one of a worker."""
    _, total = torch.cuda.mem_get_info(0)
    mode, mps = _attribute(_COMPUTE_MODE), _attribute(_MPS_ENABLED)
    return Gpu(
        name=torch.cuda.get_device_properties(0).name,
        total=total,
        exclusive_process=None if mode is None else mode == _EXCLUSIVE_PROCESS,
        mps=None if mps is None else bool(mps),
        interposer=interposer(maps.read_text()),
        asked_of_driver=asked_of_driver(env),
    )


def asked_of_driver(env: Mapping[str, str]) -> int | None:
    """The driver's limit as the environment asks for it, in bytes; the variable has whole MiB."""
    text = env.get("NVIDIA_GPU_MEMORY_LIMIT", "")
    return int(text) * MEBIBYTE if text.isdecimal() else None


def interposer(maps: str) -> str | None:
    """The library between this process and the driver, where one is mapped."""
    return (
        _INTERPOSER if any(line.endswith(f"/{_INTERPOSER}") for line in maps.splitlines()) else None
    )


def _attribute(number: int) -> int | None:
    """An attribute of the first device; None where the driver does not know it."""
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError:  # another vendor's GPU
        return None
    value, device = ctypes.c_int(), ctypes.c_int()
    if cuda.cuInit(0) or cuda.cuDeviceGet(ctypes.byref(device), 0):
        return None
    failed = cuda.cuDeviceGetAttribute(ctypes.byref(value), number, device)
    return None if failed else value.value
