"""What does the terminal show: prefixed log lines, notices, and one live status line on a TTY?"""

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
        self._logs: list[TextIO] = []

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
        log = file.open("a", encoding="utf-8", buffering=1)
        self._logs.append(log)

        def sink(line: str) -> None:
            self._line(f"{prefix} {line}")
            if log.tell() < _LARGEST_LOG:
                log.write(line + "\n")

        return sink

    def close(self) -> None:
        """Take the live line away and close the log files."""
        self.status("")
        for log in self._logs:
            log.close()

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
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self._stream.fileno())
            os.close(nowhere)
