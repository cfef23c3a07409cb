"""How does a program run as a child that never outlives us, with its output line by line?"""

import asyncio
import contextlib
import ctypes
import os
import signal
import sys
from collections import deque
from collections.abc import Callable, Mapping, Sequence

_PR_SET_PDEATHSIG = 1
_LONGEST_LINE = 64 * 1024
_KEPT_LINES = 40

LineSink = Callable[[str], None]


class Child:
    """A running program in a process group of its own."""

    def __init__(self, process: asyncio.subprocess.Process, sink: LineSink) -> None:
        self._process = process
        self._sink = sink
        self.last_lines: deque[str] = deque(maxlen=_KEPT_LINES)
        self._output = asyncio.create_task(self._read())

    @classmethod
    async def start(cls, command: Sequence[str], env: Mapping[str, str], sink: LineSink) -> "Child":
        """Run a command. Raises OSError where the program cannot be run."""
        process = await asyncio.create_subprocess_exec(
            *command,
            env=dict(env),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=_die_with_parent(os.getpid()) if sys.platform == "linux" else None,
        )
        return cls(process, sink)

    @property
    def pid(self) -> int:
        """Process id, which is the group's id too."""
        return self._process.pid

    async def wait(self) -> int:
        """Exit status (negative: the signal that ended it), once all its output was passed on."""
        code = await self._process.wait()
        self._signal_group(signal.SIGKILL)
        await self._output
        return code

    def send(self, number: signal.Signals) -> None:
        """Signal the program itself."""
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(number)

    def kill(self) -> None:
        """End the program and whatever it has started, at once."""
        self._signal_group(signal.SIGKILL)

    def _signal_group(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)

    async def _read(self) -> None:
        stream = self._process.stdout
        if stream is None:
            return
        rest = b""
        while chunk := await stream.read(_LONGEST_LINE):
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                self._pass_on(line)
            if len(rest) > _LONGEST_LINE:
                self._pass_on(rest)
                rest = b""
        if rest:
            self._pass_on(rest)

    def _pass_on(self, line: bytes) -> None:
        text = line.decode("utf-8", "replace").rstrip("\r")
        self.last_lines.append(text)
        self._sink(text)


def _die_with_parent(parent: int) -> Callable[[], None]:
    """A hook for the new process: the kernel kills it when the thread that made it ends."""
    prctl = ctypes.CDLL(None, use_errno=True).prctl

    def hook() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)

    return hook
