"""What does a worker's pod carry so that its quota holds? A pure table: plan x sharing mode.

Every mode on nvidia also carries NVIDIA_GPU_MEMORY_LIMIT, which drivers from R615 on enforce.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from splitpool_operator.declaration import defaults
from splitpool_operator.declaration.pool import ClassName, Spec, class_spec
from splitpool_quantity.quantity import show

CONTAINER = "worker"
CLAIM = "gpu"
_MEBIBYTE = 1024**2


class Unsupported(Exception):
    """This accelerator knows no such sharing; the message says which it knows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fence:
    """What a worker's pod gets from its sharing mode."""

    requests: Mapping[str, str | int] = field(default_factory=dict)
    limits: Mapping[str, str | int] = field(default_factory=dict)
    claim: Mapping[str, Any] | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    scheduler: str | None = None


def fence(spec: Spec, classes: tuple[ClassName, ...]) -> Fence:
    """The fence of a worker that serves these classes. Raises Unsupported."""
    sharing = defaults.sharing(spec)
    if sharing is None:
        return _cpu(spec, classes)
    if spec.accelerator.type == "amd":
        return _amd(spec, classes, sharing.mode)
    return _MODES[sharing.mode](spec, classes)


def scaled(quota: int, memory: int, headroom: int) -> int:
    """The share of a whole GPU that a quota is of what the headroom leaves, up to a whole MiB.

    However many of them a scheduler puts onto a GPU, their quotas leave the headroom free.
    """
    share = -(-quota * memory // (memory - headroom))
    return -(-share // _MEBIBYTE) * _MEBIBYTE


def _cpu(spec: Spec, classes: tuple[ClassName, ...]) -> Fence:
    host = max(class_spec(spec, name).host_memory for name in classes)
    memory = show(_vram(spec, classes) + host)
    return Fence(requests={"memory": memory}, limits={"memory": memory})


def _amd(spec: Spec, classes: tuple[ClassName, ...], mode: str) -> Fence:
    if mode == "Exclusive":
        return Fence(limits={"amd.com/gpu": 1})
    if mode == "DRA":
        return Fence(claim=_claim(spec, classes, "gpu.amd.com"))
    raise Unsupported(
        f"spec.sharing.mode: {mode} is for nvidia and accelerator.type is amd; use DRA or Exclusive"
    )


def _exclusive(spec: Spec, classes: tuple[ClassName, ...]) -> Fence:
    return Fence(limits={"nvidia.com/gpu": 1}, env=_driver_limit(spec, classes))


def _mig(spec: Spec, classes: tuple[ClassName, ...]) -> Fence:
    profile = class_spec(spec, classes[0]).mig_profile or ""
    # The device plugin writes 1g.10gb+me as 1g.10gb.me: a resource's name has no plus sign.
    name = f"nvidia.com/mig-{profile.replace('+', '.')}"
    return Fence(limits={name: 1}, env=_driver_limit(spec, classes))


def _dra(spec: Spec, classes: tuple[ClassName, ...]) -> Fence:
    return Fence(
        claim=_claim(spec, classes, "gpu.nvidia.com"),
        env=_driver_limit(spec, classes),
    )


def _kai(spec: Spec, classes: tuple[ClassName, ...]) -> Fence:
    sharing = defaults.sharing(spec)
    memory = f"nvidia.com/container.{CONTAINER}.gpu-memory"
    return Fence(
        env=_driver_limit(spec, classes),
        labels={"kai.scheduler/queue": sharing.kai_queue if sharing else ""},
        annotations={
            f"{memory}.request": show(_scaled(spec, classes)),
            f"{memory}.limit": show(_vram(spec, classes)),
        },
        scheduler="kai-scheduler",
    )


def _hami(spec: Spec, classes: tuple[ClassName, ...]) -> Fence:
    percent = _percent(spec, classes)
    cores = {} if percent is None else {"nvidia.com/gpucores": percent}
    return Fence(
        limits={
            "nvidia.com/gpu": 1,
            "nvidia.com/gpumem": _vram(spec, classes) // _MEBIBYTE,
            **cores,
        },
        env=_driver_limit(spec, classes),
    )


def _mps(spec: Spec, classes: tuple[ClassName, ...]) -> Fence:
    percent = _percent(spec, classes)
    threads = {} if percent is None else {"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": str(percent)}
    limit = f"0={_vram(spec, classes) // _MEBIBYTE}M"
    return Fence(
        limits={"nvidia.com/gpu.shared": 1},
        env={
            "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": limit,
            **threads,
            **_driver_limit(spec, classes),
        },
    )


def _time_slicing(spec: Spec, classes: tuple[ClassName, ...]) -> Fence:
    return Fence(limits={"nvidia.com/gpu.shared": 1}, env=_driver_limit(spec, classes))


_MODES: dict[str, Callable[[Spec, tuple[ClassName, ...]], Fence]] = {
    "Exclusive": _exclusive,
    "MIG": _mig,
    "DRA": _dra,
    "KAI": _kai,
    "HAMi": _hami,
    "MPS": _mps,
    "TimeSlicing": _time_slicing,
}


def _claim(spec: Spec, classes: tuple[ClassName, ...], device_class: str) -> dict[str, Any]:
    """The spec of a ResourceClaim that takes part of a GPU's memory (consumable capacity)."""
    exactly = {
        "deviceClassName": device_class,
        "allocationMode": "ExactCount",
        "count": 1,
        "capacity": {"requests": {"memory": show(_scaled(spec, classes))}},
    }
    return {"devices": {"requests": [{"name": CLAIM, "exactly": exactly}]}}


def _driver_limit(spec: Spec, classes: tuple[ClassName, ...]) -> dict[str, str]:
    return {"NVIDIA_GPU_MEMORY_LIMIT": str(_vram(spec, classes) // _MEBIBYTE)}


def _scaled(spec: Spec, classes: tuple[ClassName, ...]) -> int:
    return scaled(_vram(spec, classes), spec.accelerator.memory, defaults.headroom(spec))


def _vram(spec: Spec, classes: tuple[ClassName, ...]) -> int:
    return sum(class_spec(spec, name).vram for name in classes)


def _percent(spec: Spec, classes: tuple[ClassName, ...]) -> int | None:
    """The classes' declared share of compute; none where no class declares one."""
    declared = [class_spec(spec, name).compute_percent for name in classes]
    given = [percent for percent in declared if percent is not None]
    return sum(given) if given else None
