"""One program of the control plane as a child process, which never outlives the tests.

It is stopped by its own id; where the tests are killed, the kernel kills it (Linux).
"""

import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from cluster.patience import patient

# Run before the program, in its process: the kernel kills it when the thread that made it ends.
# (A hook of Popen's would run between fork and exec, which is unsafe beside other threads.)
_DIE_WITH_PARENT = """
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
if os.getppid() != int(sys.argv[1]):
    sys.exit("the tests have ended")
signal.signal(signal.SIGPIPE, signal.SIG_DFL)
os.execvp(sys.argv[2], sys.argv[2:])
"""
_START_SECONDS = 120.0
_POLL_SECONDS = 0.02
_STOP_SECONDS = 2.0
_LOG_CHARS = 3000


class StartError(Exception):
    """A program did not come up; the text ends with its log."""


class Program:
    """A program with its arguments and its log; it can be stopped and started again."""

    def __init__(self, command: Sequence[str], log: Path) -> None:
        self.command = tuple(command)
        self.log = log
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def running(self) -> bool:
        """Whether the process is there."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """Of the process that was started last."""
        if self._process is None:
            raise ValueError(f"{self.command[0]} was never started")
        return self._process.pid

    def start(self) -> None:
        """Start it; call this from the main thread, whose end ends the program."""
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [*dying_with_this(), *self.command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def wait(self, ready: Callable[[], bool]) -> None:
        """Until what was started is ready. Raises StartError."""
        deadline = time.monotonic() + patient(_START_SECONDS)
        while not ready():
            if not self.running or time.monotonic() > deadline:
                raise StartError(f"{self.log.stem} is not ready: {self.last_words()}")
            time.sleep(_POLL_SECONDS)

    def stop(self) -> None:
        """Ask it to end, and end it where that takes long; the API server drains for long."""
        if self._process is None:
            return
        self._process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_STOP_SECONDS)
        self.kill()

    def kill(self) -> None:
        """End it at once."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def last_words(self) -> str:
        """The end of its log."""
        return self.log.read_text(errors="replace")[-_LOG_CHARS:] if self.log.exists() else ""


def free_ports(count: int) -> list[int]:
    """Ports of the loopback address that nobody listens on now."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [int(each.getsockname()[1]) for each in sockets]


def dying_with_this() -> tuple[str, ...]:
    """Put before a command: the kernel kills it when the thread that started it ends (Linux)."""
    if sys.platform != "linux":
        return ()
    return sys.executable, "-I", "-S", "-c", _DIE_WITH_PARENT, str(os.getpid())
