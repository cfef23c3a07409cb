"""One server as a child process with all its own: started, held, stopped, never left behind."""

import contextlib
import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import psutil

STOP_SECONDS = 20.0
_LAST_CHARS = 3000


class Program:
    """A program in its own session. Where this process is killed, it is killed too (Linux)."""

    def __init__(self, command: Sequence[str], env: Mapping[str, str], log: Path) -> None:
        self._log = log
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("wb") as written:
            self._process = psutil.Popen(
                [*_ending_with_this(), *command],
                env={**os.environ, **env},
                stdin=subprocess.DEVNULL,
                stdout=written,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def ended(self) -> bool:
        """Whether it has ended by itself."""
        return self._process.poll() is not None

    @property
    def pid(self) -> int:
        """Of the program itself."""
        return int(self._process.pid)

    @property
    def said(self) -> str:
        """The end of what it has printed."""
        return self._log.read_text(errors="replace")[-_LAST_CHARS:]

    @property
    def memory(self) -> int:
        """Bytes that it and its children hold now."""
        total = 0
        for process in self._family():
            with contextlib.suppress(psutil.NoSuchProcess):
                total += process.memory_info().rss
        return total

    def hold(self) -> None:
        """Stand still, so that another server has the machine."""
        self._each(psutil.Process.suspend)

    def go_on(self) -> None:
        """Run again."""
        self._each(psutil.Process.resume)

    def prefer(self, nice: int) -> None:
        """Give it and its children another priority; below 0 only root may."""
        for process in self._family():
            with contextlib.suppress(psutil.NoSuchProcess):
                give_priority(process.pid, nice)

    def stop(self, seconds: float = STOP_SECONDS) -> None:
        """Ask, wait so long, then kill what is left of it and its children."""
        self.go_on()
        family = self._family()
        if not self.ended:
            self._process.send_signal(signal.SIGTERM)
        _, left = psutil.wait_procs(family, timeout=seconds)
        for process in left:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(left, timeout=seconds)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)  # children of a program that fell over

    def _family(self) -> list[psutil.Process]:
        try:
            return [self._process, *self._process.children(recursive=True)]
        except psutil.NoSuchProcess:
            return []

    def _each(self, act: Callable[[psutil.Process], None]) -> None:
        for process in self._family():
            with contextlib.suppress(psutil.NoSuchProcess):
                act(process)


def give_priority(pid: int, nice: int) -> None:
    """To a process with all its threads, and to its session among the sessions.

    Where Linux groups processes by session (`autogroup`), a nice value counts within one alone.
    Raises PermissionError.
    """
    for thread in psutil.Process(pid).threads():
        with contextlib.suppress(ProcessLookupError):
            os.setpriority(os.PRIO_PROCESS, thread.id, nice)
    group = Path(f"/proc/{pid}/autogroup")
    if group.exists():
        group.write_text(str(nice))


@contextlib.contextmanager
def ended_by_signals() -> Iterator[None]:
    """SIGTERM, SIGHUP and Ctrl-C end the block once, so that children are stopped."""

    def interrupt(*_: object) -> None:
        # timeout(1) tells its child and then the group: the second must not cut the stopping short.
        for number in before:
            signal.signal(number, signal.SIG_IGN)
        raise KeyboardInterrupt

    before = {
        number: signal.signal(number, interrupt)
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _ending_with_this() -> list[str]:
    """What runs before the program: the kernel kills it when this process is gone.

    No other signal ends a program that stands still.
    """
    setpriv = shutil.which("setpriv")
    return [setpriv, "--pdeathsig", "KILL", "--"] if setpriv else []
