"""Where is the library of the C++ operations? Shipped, or compiled once per machine into a cache.

A compiled library's name is a hash of the sources, the flags, the compiler and the CPU: whatever
changes any of them compiles anew, and nothing stale is ever loaded.
"""

import fcntl
import logging
import os
import platform
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from splitpool_worker.ops import shipped
from splitpool_worker.ops.compiling import (
    COMPILE_SECONDS,
    BuildFailed,
    compile_to,
    compiler,
    key,
)

NATIVE = ("-march=native",)

log = logging.getLogger(__name__)


def library(target: Sequence[str] = NATIVE, *, came_with: Path = shipped.FOLDER) -> Path:
    """The library for this machine: the one of the folder `came_with` that fits, else one from the
    cache, compiled now if it is not there yet.

    `target` are the compiler's flags that choose the CPU; others than NATIVE are always compiled.
    Raises BuildFailed.
    """
    path = shipped.fitting(shipped.cpu_flags(), came_with) if target == NATIVE else None
    if path is None:
        path = _compiled(target)
    log.info("operations: %s", path)
    return path


def _compiled(target: Sequence[str]) -> Path:
    program = compiler()
    try:
        path = _cache_folder() / f"ops-{key(target, _version(program), _cpu())}.so"
        with _locked(path.with_suffix(".lock")):
            if not path.exists():
                compile_to(path, program, target)
    except (OSError, subprocess.SubprocessError) as error:
        raise BuildFailed(f"the C++ operations could not be built: {error}") from error
    return path


def _cache_folder() -> Path:
    root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = root / "splitpool"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


def _version(program: str) -> bytes:
    return subprocess.run(
        [program, "--version"], capture_output=True, check=True, timeout=COMPILE_SECONDS
    ).stdout


def _cpu() -> bytes:
    """What `-march=native` depends on."""
    try:
        lines = shipped.CPUINFO.read_bytes().splitlines()
    except OSError:
        return f"{platform.machine()} {platform.processor()}".encode()
    wanted = (b"model", b"flags", b"Features", b"CPU part")
    return b"\n".join(sorted({line for line in lines if line.startswith(wanted)}))


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Held by one process at a time; the kernel drops it when the process ends, however it ends."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
