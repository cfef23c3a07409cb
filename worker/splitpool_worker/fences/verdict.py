"""Which fence do the observed facts prove? The strongest, and where two could be the cause of one
fact the weaker.

An environment variable proves nothing: it is compared with what the device itself reports.
"""

from dataclasses import dataclass
from enum import StrEnum

MEBIBYTE = 1 << 20


class Enforcement(StrEnum):
    """Strongest first."""

    HARDWARE = "Hardware"
    DRIVER = "Driver"
    MPS = "MPS"
    CGROUP = "Cgroup"
    INTERPOSER = "Interposer"
    COOPERATIVE = "Cooperative"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fence:
    """A fence, the bytes at which it stands, and by what it was seen."""

    enforcement: Enforcement
    limit: int | None = None
    seen: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryLimit:
    """The lowest memory limit of the cgroups that a process is in, and the file that holds it."""

    limit: int
    file: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """What a process sees of its GPU; None where the driver does not know the question."""

    name: str
    total: int  # bytes that there are for this process
    exclusive_process: bool | None
    mps: bool | None
    interposer: str | None  # the loaded library that stands between process and driver
    asked_of_driver: int | None  # NVIDIA_GPU_MEMORY_LIMIT, bytes

    @property
    def slice(self) -> bool:
        """Whether it is a slice that the hardware made: CUDA names those so."""
        return " MIG " in f" {self.name} "


def on_cpu(found: MemoryLimit | None, allowed: int) -> Fence:
    """The fence of a process that may take `allowed` bytes of host memory: all quotas and what
    it needs beside them."""
    if found is None:
        return _cooperative("no cgroup of this process has a memory limit")
    text = f"memory limit of {found.limit} bytes in {found.file}"
    if found.limit > allowed:
        return _cooperative(f"{text} is above vram + hostMemory of {allowed} bytes")
    return Fence(enforcement=Enforcement.CGROUP, limit=found.limit, seen=text)


def on_gpu(gpu: Gpu, quota: int) -> Fence:
    """The fence of a process whose quotas sum up to `quota` bytes."""
    text = f"{gpu.name} has {gpu.total} bytes for this process"
    if gpu.total < whole_mebibytes(quota):
        return _cooperative(f"{text}, less than the quota of {quota} bytes")
    if gpu.slice:
        return Fence(enforcement=Enforcement.HARDWARE, limit=gpu.total, seen=f"{text}, a slice")
    if gpu.total <= quota:
        return _clamped(gpu, text)
    if gpu.exclusive_process and gpu.mps is False:
        seen = f"{text}, and takes one process at a time"
        return Fence(enforcement=Enforcement.HARDWARE, limit=gpu.total, seen=seen)
    return _cooperative(f"{text}, more than the quota of {quota} bytes")


def whole_mebibytes(size: int) -> int:
    """Drivers and interposers are told limits in whole MiB, rounded down."""
    return size // MEBIBYTE * MEBIBYTE


def _clamped(gpu: Gpu, text: str) -> Fence:
    """The GPU shows the quota in place of its memory: by whom?"""
    if gpu.interposer is not None:
        seen = f"{text} behind {gpu.interposer}"
        return Fence(enforcement=Enforcement.INTERPOSER, limit=gpu.total, seen=seen)
    if gpu.mps:
        seen = f"{text} through the MPS server"
        return Fence(enforcement=Enforcement.MPS, limit=gpu.total, seen=seen)
    if gpu.mps is False and gpu.asked_of_driver == whole_mebibytes(gpu.total):
        seen = f"{text}, as NVIDIA_GPU_MEMORY_LIMIT says"
        return Fence(enforcement=Enforcement.DRIVER, limit=gpu.total, seen=seen)
    return _cooperative(f"{text} for a reason that is not known")


def _cooperative(seen: str) -> Fence:
    return Fence(enforcement=Enforcement.COOPERATIVE, seen=seen)
