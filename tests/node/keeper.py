"""Keeps one run's namespaces, and ends all that is in them when the run ends or is killed.

A program of its own, with nothing but the standard library: `python -I -S keeper.py FOLDER LOCK`.
It makes a process, network and mount namespace, prints the id of the first process in them, waits
until nobody holds the other end of its standard input any more, and then ends every process in the
namespaces, and removes the run's cgroups and its folder. Where the keeper itself is killed, the
kernel kills the first process, with it all others, and with these all mounts and the network; what
is left, empty cgroups and the folder, goes when the next run starts (`leftovers`).

In the namespaces, /run is empty but for the run's folder at /run/node, and what is written to /var
goes to that folder too, as do settings of the kernel that a kubelet insists on: programs with fixed
paths leave no trace on the machine.
"""

import contextlib
import ctypes
import fcntl
import os
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

INSIDE = "/run/node"
# A kubelet would set these for the whole machine; it is content where they are so.
_KERNEL = {
    "kernel/keys/root_maxbytes": "25000000",
    "kernel/keys/root_maxkeys": "1000000",
    "kernel/panic": "10",
    "kernel/panic_on_oops": "1",
    "vm/overcommit_memory": "1",
    "vm/panic_on_oom": "0",
}
_CGROUPS = Path("/sys/fs/cgroup")
_END_SECONDS = 20.0
_POLL_SECONDS = 0.02

# From <sched.h>, <sys/mount.h> and <sys/prctl.h>.
_NEW_MOUNTS, _NEW_PIDS, _NEW_NETWORK = 0x00020000, 0x20000000, 0x40000000
_BIND, _RECURSIVE, _PRIVATE, _SHARED = 0x1000, 0x4000, 0x40000, 0x100000
_PARENT_DEATH_SIGNAL = 1
_LIBC = ctypes.CDLL(None, use_errno=True)


def keep(folder: Path, lock: Path) -> None:
    """Make the namespaces, wait for the end of the run, clean up."""
    for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)
    held = os.open(lock, os.O_RDWR | os.O_CREAT, 0o600)
    # The first process holds it as well: it is free when both have ended.
    fcntl.flock(held, fcntl.LOCK_EX)
    try:
        _make_cgroups(folder.name)
        with _first_process(folder) as first:
            # Nobody reads it where the run is ended right now.
            with contextlib.suppress(BrokenPipeError):
                print(first, flush=True)
            while sys.stdin.buffer.read(1):
                pass
    finally:
        remove(folder)
        lock.unlink()


def remove(folder: Path) -> None:
    """Remove the cgroups and the folder of a run in which nothing runs any more."""
    deadline = time.monotonic() + _END_SECONDS
    # The kernel empties a cgroup a moment after its last process has ended.
    while not _removed(folder) and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)


def _make_cgroups(run: str) -> None:
    """One in every hierarchy, with all of its controllers: the kubelet makes its own below them."""
    unified = _CGROUPS / "cgroup.controllers"
    if unified.exists():
        for controller in unified.read_text().split():
            with contextlib.suppress(OSError):
                (_CGROUPS / "cgroup.subtree_control").write_text(f"+{controller}")
    hierarchies = [_CGROUPS] if unified.exists() else _CGROUPS.iterdir()
    for hierarchy in filter(os.path.ismount, hierarchies):
        (hierarchy / cgroup(run)).mkdir()


def cgroups(run: str) -> list[Path]:
    """The run's cgroup in every hierarchy that has one."""
    name = cgroup(run)
    return [place for place in (_CGROUPS / name, *_CGROUPS.glob(f"*/{name}")) if place.is_dir()]


def cgroup(run: str) -> str:
    """The name of a run's cgroup, below which its pods have theirs."""
    return f"splitpool-node-{run}"


def _removed(folder: Path) -> bool:
    for top in cgroups(folder.name):
        for place, _, _ in os.walk(top, topdown=False):
            with contextlib.suppress(OSError):
                os.rmdir(place)
    shutil.rmtree(folder, ignore_errors=True)
    return not folder.exists() and not cgroups(folder.name)


@contextlib.contextmanager
def _first_process(folder: Path) -> Iterator[int]:
    """Its id, once the namespaces are as they should be; afterwards all in them is ended."""
    ready, told = os.pipe()
    _call(_LIBC.unshare(_NEW_PIDS))
    first = os.fork()
    if first == 0:
        try:
            _be_first(folder, told)
        except OSError as error:
            print(error, file=sys.stderr, flush=True)
        finally:
            os._exit(1)
    os.close(told)
    if not os.read(ready, 1):
        sys.exit("the namespaces could not be made")
    network = os.stat(f"/proc/{first}/ns/net").st_ino
    try:
        yield first
    finally:
        os.kill(first, signal.SIGKILL)
        os.waitpid(first, 0)
        _end_processes(network)


def _be_first(folder: Path, told: int) -> NoReturn:
    """Set up the namespaces, take in orphans, and never end by oneself."""
    _call(_LIBC.prctl(_PARENT_DEATH_SIGNAL, signal.SIGKILL))
    _call(_LIBC.unshare(_NEW_MOUNTS | _NEW_NETWORK))
    _mount_all(folder)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    os.write(told, b".")
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(nothing, stream)
    os.close(told)
    while True:
        signal.pause()


def _mount_all(folder: Path) -> None:
    upper, work = folder / "var", folder / "var-work"
    upper.mkdir()
    work.mkdir()
    _mount("none", "/", flags=_RECURSIVE | _PRIVATE)
    _mount("proc", "/proc", kind="proc")
    _mount("tmpfs", "/run", kind="tmpfs", options="mode=755")
    os.mkdir(INSIDE)
    _mount(str(folder), INSIDE, flags=_BIND)
    layers = f"lowerdir=/var,upperdir={INSIDE}/{upper.name},workdir={INSIDE}/{work.name}"
    _mount("overlay", "/var", kind="overlay", options=layers)
    for setting, value in _KERNEL.items():
        seen = Path(INSIDE, setting.replace("/", "."))
        seen.write_text(value)
        _mount(str(seen), f"/proc/sys/{setting}", flags=_BIND)
    # Pods' mounts have to be seen by the kubelet and by the runtime alike.
    _mount("none", "/", flags=_RECURSIVE | _SHARED)


def _mount(source: str, target: str, *, kind: str = "", flags: int = 0, options: str = "") -> None:
    arguments = (source.encode(), target.encode(), kind.encode())
    _call(_LIBC.mount(*arguments, ctypes.c_ulong(flags), options.encode()), target)


def _call(result: int, what: str = "") -> None:
    if result == -1:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), what)


def _end_processes(network: int) -> None:
    """End what is in the network namespace without being in the process namespace."""
    deadline = time.monotonic() + _END_SECONDS
    while (there := list(_in_network(network))) and time.monotonic() < deadline:
        for process in there:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        time.sleep(_POLL_SECONDS)


def _in_network(network: int) -> Iterator[int]:
    for entry in os.listdir("/proc"):
        with contextlib.suppress(OSError):
            if entry.isdigit() and os.stat(f"/proc/{entry}/ns/net").st_ino == network:
                yield int(entry)


if __name__ == "__main__":
    keep(Path(sys.argv[1]), Path(sys.argv[2]))
