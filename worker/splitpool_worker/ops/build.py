"""Compiles the C++ operations once per machine and keeps the library in the user's cache.

The library's name is a hash of the sources, the flags, the compiler, the CPU and torch's version:
whatever changes any of them compiles anew, and nothing stale is ever loaded.
"""

import fcntl
import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import torch

SOURCE = Path(__file__).with_name("cpu.cpp")
FLAGS = (
    "-std=c++17",
    "-O3",
    "-fopenmp",
    "-shared",
    "-fPIC",
    "-fno-math-errno",
    "-Wno-psabi",
)
NATIVE = ("-march=native",)
COMPILE_SECONDS = 300


class BuildFailed(Exception):
    """There is no library; the message says why in one line."""


def library(target: Sequence[str] = NATIVE) -> Path:
    """The compiled library for this machine, compiled now if it is not in the cache yet.

    `target` are the compiler's flags that choose the CPU. Raises BuildFailed.
    """
    compiler = shutil.which(os.environ.get("CXX", "c++"))
    if compiler is None:
        raise BuildFailed("no C++ compiler was found (install g++, or name one in CXX)")
    command = [compiler, *FLAGS, *target]
    try:
        folder = _cache_folder()
        path = folder / f"ops-{_key(command)}.so"
        with _locked(path.with_suffix(".lock")):
            if not path.exists():
                _compile(command, path)
    except (OSError, subprocess.SubprocessError) as error:
        raise BuildFailed(f"the C++ operations could not be built: {error}") from error
    return path


def _cache_folder() -> Path:
    root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = root / "splitpool"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


def _key(command: Sequence[str]) -> str:
    digest = hashlib.sha256()
    for path in (SOURCE, *sorted(SOURCE.with_name("native").glob("*.h"))):
        digest.update(path.read_bytes())
    version = subprocess.run(
        [command[0], "--version"], capture_output=True, check=True, timeout=COMPILE_SECONDS
    ).stdout
    for part in (version, " ".join(command).encode(), _cpu(), torch.__version__.encode()):
        digest.update(part + b"\0")
    return digest.hexdigest()[:24]


def _cpu() -> bytes:
    """What `-march=native` depends on."""
    try:
        lines = Path("/proc/cpuinfo").read_bytes().splitlines()
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


def _compile(command: Sequence[str], path: Path) -> None:
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        made = Path(folder) / path.name
        result = subprocess.run(
            [*command, str(SOURCE), "-o", str(made)],
            capture_output=True,
            text=True,
            timeout=COMPILE_SECONDS,
            check=False,
        )
        if result.returncode != 0:
            first = next((line for line in result.stderr.splitlines() if "error" in line), "")
            raise BuildFailed(f"the C++ operations do not compile with {command[0]}: {first}")
        made.replace(path)
