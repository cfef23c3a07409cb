"""How many bytes of host memory may new processes take: what is free, within the cgroup's limit?"""

from pathlib import Path

from splitpool_operator.planning.plan import Plan
from splitpool_quantity.quantity import approximate, show

_MEMINFO = Path("/proc/meminfo")
_CGROUPS = (
    (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory.current")),
    (
        Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
        Path("/sys/fs/cgroup/memory/memory.usage_in_bytes"),
    ),
)


def available() -> int | None:
    """Free bytes of this machine or container; None where the system does not say."""
    known = [size for size in (_free(_read(_MEMINFO)), *map(_left, _CGROUPS)) if size is not None]
    return min(known, default=None)


def shortage(plans: list[Plan], free: int) -> str | None:
    """Why the workers on the CPU do not fit into so much memory, or None."""
    workers = [w for p in plans if p.pool.spec.accelerator.type == "cpu" for w in p.workers]
    needed = sum(worker.vram + worker.host_memory for worker in workers)
    if needed <= free:
        return None
    parts = " + ".join(f"{w.name} {show(w.vram)} + {show(w.host_memory)}" for w in workers)
    return (
        f"the workers need {approximate(needed)} of host memory (vram + hostMemory: {parts}) and "
        f"{approximate(free)} are free; lower spec.pools.*.vram, hostMemory or replicas, or free "
        "memory"
    )


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


def _free(meminfo: str) -> int | None:
    for line in meminfo.splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return None


def _left(cgroup: tuple[Path, Path]) -> int | None:
    limit, used = (_read(path).strip() for path in cgroup)
    if not limit.isdecimal() or not used.isdecimal():
        return None
    return max(0, int(limit) - int(used))
