"""The memory limit of a process is found wherever the kernel keeps it."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from splitpool_worker.fences.cgroup import memory_limit
from splitpool_worker.fences.verdict import MemoryLimit

V1 = "34 31 0:32 {root} {point} rw,relatime - cgroup cgroup rw,memory"
V2 = "41 31 0:38 {root} {point} rw,relatime shared:9 - cgroup2 cgroup rw,nsdelegate"
OTHER = "32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu,cpuacct"
V1_POINT, V2_POINT = "/sys/fs/cgroup/memory", "/sys/fs/cgroup"
UNLIMITED = "9223372036854771712"


def system(
    folder: Path, groups: list[str], mounts: list[str], files: dict[str, str | int]
) -> MemoryLimit | None:
    """What is found on a machine that has these cgroups, mounts and files."""
    contents = {
        "/proc/self/cgroup": "\n".join(groups),
        "/proc/self/mountinfo": "\n".join(mounts),
    } | files
    for name, content in contents.items():
        path = folder / name.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{content}\n")
    return memory_limit(folder)


def v1(root: str = "/", point: str = V1_POINT) -> str:
    return V1.format(root=root, point=point)


def v2(root: str = "/", point: str = V2_POINT) -> str:
    return V2.format(root=root, point=point)


def test_in_a_container_with_its_own_namespace_the_root_holds_the_limit(tmp_path: Path) -> None:
    files: dict[str, str | int] = {"/sys/fs/cgroup/memory.max": 3 << 30}
    assert system(tmp_path, ["0::/"], [v2()], files) == MemoryLimit(
        limit=3 << 30, file="/sys/fs/cgroup/memory.max"
    )


def test_in_a_container_of_version_1_the_mount_shows_the_containers_own_cgroup(
    tmp_path: Path,
) -> None:
    own = "/kubepods/burstable/pod1/abc"
    files: dict[str, str | int] = {f"{V1_POINT}/memory.limit_in_bytes": 3 << 30}
    found = system(tmp_path, [f"4:memory:{own}", "1:cpu,cpuacct:/"], [OTHER, v1(root=own)], files)
    assert found == MemoryLimit(limit=3 << 30, file=f"{V1_POINT}/memory.limit_in_bytes")


def test_on_a_host_every_cgroup_above_binds_too(tmp_path: Path) -> None:
    files: dict[str, str | int] = {
        f"{V1_POINT}/memory.limit_in_bytes": UNLIMITED,
        f"{V1_POINT}/a/memory.limit_in_bytes": 2 << 30,
        f"{V1_POINT}/a/b/memory.limit_in_bytes": 5 << 30,
    }
    found = system(tmp_path, ["4:memory:/a/b"], [v1()], files)
    assert found == MemoryLimit(limit=2 << 30, file=f"{V1_POINT}/a/memory.limit_in_bytes")


def test_with_both_versions_the_one_that_has_the_controller_counts(tmp_path: Path) -> None:
    files: dict[str, str | int] = {f"{V1_POINT}/memory.limit_in_bytes": 1 << 30}
    groups, mounts = ["4:memory:/", "0::/"], [v1(), v2(point="/sys/fs/cgroup/unified")]
    found = system(tmp_path, groups, mounts, files)
    assert found is not None
    assert found.limit == 1 << 30


@pytest.mark.parametrize(
    ("groups", "mounts", "files"),
    [
        (["0::/"], [v2()], {"/sys/fs/cgroup/memory.max": "max"}),
        (["4:memory:/"], [v1()], {f"{V1_POINT}/memory.limit_in_bytes": UNLIMITED}),
        (["0::/"], [v2()], {}),
        (["0::/"], [OTHER], {"/sys/fs/cgroup/memory.max": 1}),
        # The process lives outside of what the mount shows.
        (["0::/elsewhere"], [v2(root="/a")], {"/sys/fs/cgroup/memory.max": 1}),
        (["0::/../elsewhere"], [v2()], {"/sys/fs/cgroup/memory.max": 1}),
    ],
)
def test_no_limit_is_found_where_none_binds(
    tmp_path: Path, groups: list[str], mounts: list[str], files: dict[str, str | int]
) -> None:
    assert system(tmp_path, groups, mounts, files) is None


def test_a_system_without_cgroups_has_no_limit(tmp_path: Path) -> None:
    assert memory_limit(tmp_path) is None


@pytest.fixture
def cgroup() -> Iterator[Path]:
    """A real memory cgroup of this test; skipped where none can be made."""
    for parent, file in ((V1_POINT, "memory.limit_in_bytes"), (V2_POINT, "memory.max")):
        path = Path(parent) / f"splitpool-test-{os.getpid()}"
        try:
            path.mkdir()
        except OSError:
            continue
        try:
            if (path / file).exists():
                (path / file).write_text(str(1 << 30))
                yield path
                return
        finally:
            path.rmdir()
    pytest.skip("memory cgroups cannot be made here")


def test_a_process_finds_the_limit_of_the_cgroup_that_it_is_put_into(cgroup: Path) -> None:
    program = "from splitpool_worker.fences.cgroup import memory_limit; print(memory_limit())"
    shell = 'echo $$ > "$0/cgroup.procs" && exec "$@"'
    said = subprocess.run(
        ["/bin/sh", "-c", shell, str(cgroup), sys.executable, "-c", program],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    assert f"limit={1 << 30}" in said
    assert cgroup.name in said
