"""What does the terminal show: prefixed log lines, notices, and one live status line on a TTY?"""

import contextlib
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TextIO

_COLOURS = (36, 33, 32, 35, 34, 31)
_CLEAR_LINE = "\r\x1b[2K"
_LARGEST_LOG = 64 * 1024**2


class Console:
    """Writes whole lines; the status line is redrawn below them and never ends up in a file."""

    def __init__(self, stream: TextIO, *, live: bool, coloured: bool) -> None:
        self._stream = stream
        self._coloured = coloured
        self.live = live
        self._status = ""
        self._prefixes = 0
        self._logs: list[LogFile] = []

    @classmethod
    def of(cls, stream: TextIO = sys.stdout) -> "Console":
        """The console of a stream: live on a TTY, coloured unless NO_COLOR is set."""
        live = stream.isatty()
        return cls(stream, live=live, coloured=live and not os.environ.get("NO_COLOR"))

    def say(self, text: str) -> None:
        """A notice of our own."""
        self._line(text)

    def status(self, text: str) -> None:
        """Replace the live line; empty takes it away. Does nothing off a TTY."""
        text = text[: shutil.get_terminal_size().columns - 1]  # a wrapped line cannot be cleared
        if self.live and text != self._status:
            self._status = text
            self._write(_CLEAR_LINE + text)

    def prefixed(self, name: str, width: int, file: Path) -> Callable[[str], None]:
        """A sink for one process's lines: the terminal, with its name, and a file up to a bound."""
        prefix = self._coloured_prefix(f"{name:<{width}} |")
        log = LogFile(file, self.say)
        self._logs.append(log)

        def sink(line: str) -> None:
            self._line(f"{prefix} {line}")
            log.write(line)

        return sink

    def close(self) -> None:
        """Take the live line away and close the log files."""
        self.status("")
        for log in self._logs:
            log.close()
        try:
            if not self._stream.closed:
                self._stream.flush()
        except OSError:
            # Or the end of the process would try once more, and complain.
            self._give_up()

    def _coloured_prefix(self, text: str) -> str:
        if not self._coloured:
            return text
        colour = _COLOURS[self._prefixes % len(_COLOURS)]
        self._prefixes += 1
        return f"\x1b[{colour}m{text}\x1b[0m"

    def _line(self, text: str) -> None:
        if self.live:
            self._write(f"{_CLEAR_LINE}{text}\n{self._status}")
        else:
            self._write(text + "\n")

    def _write(self, text: str) -> None:
        try:
            self._stream.write(text)
            self._stream.flush()
        except BrokenPipeError:
            # The reader went away; what is served goes on, without a terminal.
            self._give_up()
        except OSError:
            # A full disk may have room again later; what is served does not depend on it.
            return

    def _give_up(self) -> None:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self._stream.fileno())
        os.close(nowhere)


class LogFile:
    """The lines of one process, up to a bound; a disk that is full loses lines and nothing else."""

    def __init__(self, file: Path, complain: Callable[[str], None]) -> None:
        self._file = file.open("a", encoding="utf-8", buffering=1)
        self._complain = complain
        self._failing = False

    def write(self, line: str) -> None:
        """Append a line; the first of a row that cannot be written is told."""
        try:
            if self._file.tell() < _LARGEST_LOG:
                self._file.write(line + "\n")
            self._failing = False
        except OSError as error:
            if not self._failing:
                self._failing = True
                text = f"{self._file.name} cannot be written: {error.strerror}; free room there"
                self._complain(f"splitpool: {text}")

    def close(self) -> None:
        """What could not be written is lost."""
        with contextlib.suppress(OSError):
            self._file.close()
