"""Which memory limit do the cgroups of this process set? Of version 1, 2 or both at once."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from splitpool_worker.fences.verdict import MemoryLimit

_FILES = {"cgroup": "memory.limit_in_bytes", "cgroup2": "memory.max"}
# Version 1 has no word for "no limit": it shows the largest number of whole pages.
_UNLIMITED = 1 << 62


@dataclass(frozen=True, slots=True, kw_only=True)
class _Mount:
    """A hierarchy of cgroups: which part of it is visible here, and where."""

    kind: str
    root: PurePosixPath
    point: PurePosixPath


def memory_limit(root: Path = Path("/")) -> MemoryLimit | None:
    """The lowest limit that binds this process; None without one. `root`: of the file system."""
    try:
        groups = dict(_groups((root / "proc/self/cgroup").read_text()))
        mounts = list(_mounts((root / "proc/self/mountinfo").read_text()))
    except OSError:
        return None
    found = [
        MemoryLimit(limit=limit, file=str(file))
        for mount in mounts
        if mount.kind in groups
        for file in _chain(mount, groups[mount.kind])
        if (limit := _limit(root / file.relative_to("/"))) is not None
    ]
    return min(found, key=lambda each: each.limit, default=None)


def _groups(text: str) -> Iterator[tuple[str, PurePosixPath]]:
    """The cgroups that may hold a memory limit, by the kind of their file system."""
    for line in text.splitlines():
        _, controllers, path = line.split(":", 2)
        if not controllers:
            yield "cgroup2", PurePosixPath(path)
        elif "memory" in controllers.split(","):
            yield "cgroup", PurePosixPath(path)


def _mounts(text: str) -> Iterator[_Mount]:
    for line in text.splitlines():
        before, _, after = line.partition(" - ")
        _, _, _, root, point, *_ = before.split(" ")
        kind, _, options = after.split(" ", 2)
        if kind == "cgroup2" or (kind == "cgroup" and "memory" in options.split(",")):
            yield _Mount(kind=kind, root=PurePosixPath(root), point=PurePosixPath(point))


def _chain(mount: _Mount, group: PurePosixPath) -> Iterator[PurePosixPath]:
    """The limit's file in a cgroup and in all above it that are visible: each of them binds."""
    try:
        inside = group.relative_to(mount.root)
    except ValueError:  # of another namespace: the mount shows nothing of this process
        return
    if ".." in inside.parts:
        return
    for part in (inside, *inside.parents):
        yield mount.point / part / _FILES[mount.kind]


def _limit(file: Path) -> int | None:
    try:
        text = file.read_text().strip()
    except OSError:  # the root of version 2, or a hierarchy without the memory controller
        return None
    return int(text) if text.isdecimal() and int(text) < _UNLIMITED else None
