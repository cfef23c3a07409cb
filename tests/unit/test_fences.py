"""A fence is claimed where the facts prove it, and nowhere else."""

from dataclasses import replace

import pytest

from splitpool_worker.fences.gpu import asked_of_driver, interposer
from splitpool_worker.fences.verdict import (
    Enforcement,
    Fence,
    Gpu,
    MemoryLimit,
    on_cpu,
    on_gpu,
)

GIB = 1 << 30
QUOTA = 32 * GIB + 1000  # told to a driver it is 32 GiB
PLAIN = Gpu(
    name="NVIDIA H100 80GB HBM3",
    total=80 * GIB,
    exclusive_process=False,
    mps=False,
    interposer=None,
    asked_of_driver=32 * GIB,
)
CAPPED = replace(PLAIN, total=32 * GIB)
SLICE = replace(PLAIN, name="NVIDIA H100 80GB HBM3 MIG 3g.40gb", total=40 * GIB)


@pytest.mark.parametrize(
    ("gpu", "expected"),
    [
        (SLICE, Enforcement.HARDWARE),
        (replace(SLICE, total=20 * GIB), Enforcement.COOPERATIVE),
        (CAPPED, Enforcement.DRIVER),
        (replace(CAPPED, asked_of_driver=None), Enforcement.COOPERATIVE),
        (replace(CAPPED, asked_of_driver=16 * GIB), Enforcement.COOPERATIVE),
        (replace(CAPPED, mps=True), Enforcement.MPS),
        (replace(CAPPED, mps=True, interposer="libvgpu.so"), Enforcement.INTERPOSER),
        (replace(CAPPED, interposer="libvgpu.so"), Enforcement.INTERPOSER),
        (replace(PLAIN, exclusive_process=True), Enforcement.HARDWARE),
        (replace(PLAIN, exclusive_process=True, mps=True), Enforcement.COOPERATIVE),
        # A driver too old to be asked is too old to hold a limit.
        (replace(CAPPED, mps=None), Enforcement.COOPERATIVE),
        (replace(PLAIN, exclusive_process=True, mps=None), Enforcement.COOPERATIVE),
    ],
)
def test_a_gpu_shows_which_fence_it_has(gpu: Gpu, expected: Enforcement) -> None:
    fence = on_gpu(gpu, QUOTA)

    assert fence.enforcement is expected
    assert fence.limit == (None if expected is Enforcement.COOPERATIVE else gpu.total)
    assert str(gpu.total) in fence.seen


@pytest.mark.parametrize("asked", [{"mps": True}, {"interposer": "libvgpu.so"}, {}])
def test_what_was_asked_for_and_is_not_seen_is_not_claimed(asked: dict[str, object]) -> None:
    fence = on_gpu(replace(PLAIN, **asked), QUOTA)  # type: ignore[arg-type]

    assert fence == Fence(
        enforcement=Enforcement.COOPERATIVE,
        seen=f"{PLAIN.name} has {80 * GIB} bytes for this process, more than the quota of "
        f"{QUOTA} bytes",
    )


@pytest.mark.parametrize(
    ("limit", "expected"),
    [(3 * GIB, "Cgroup"), (2 * GIB, "Cgroup"), (3 * GIB + 1, "Cooperative")],
)
def test_a_cgroup_is_a_fence_where_its_limit_is_no_higher_than_all_that_is_allowed(
    limit: int, expected: str
) -> None:
    fence = on_cpu(MemoryLimit(limit=limit, file="/sys/fs/cgroup/memory.max"), 3 * GIB)

    assert fence.enforcement == expected
    assert str(limit) in fence.seen
    assert "/sys/fs/cgroup/memory.max" in fence.seen


def test_without_a_limit_a_worker_on_the_cpu_keeps_its_quota_by_itself() -> None:
    fence = on_cpu(None, GIB)

    assert (fence.enforcement, fence.limit) == (Enforcement.COOPERATIVE, None)


def test_the_drivers_limit_is_asked_for_in_mebibytes() -> None:
    assert asked_of_driver({"NVIDIA_GPU_MEMORY_LIMIT": "32768"}) == 32 * GIB
    assert asked_of_driver({"NVIDIA_GPU_MEMORY_LIMIT": "32Gi"}) is None
    assert asked_of_driver({}) is None


def test_an_interposer_is_seen_when_it_is_loaded() -> None:
    mapped = "7f00-7f01 r-xp 00000000 08:01 12 "
    assert interposer(f"{mapped}/usr/local/vgpu/libvgpu.so\n") == "libvgpu.so"
    assert interposer(f"{mapped}/usr/lib/libcuda.so.1\n") is None
