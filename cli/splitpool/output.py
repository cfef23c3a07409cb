"""How does text leave the command, also where nobody takes it?"""

import io
import os
import sys


class Unwritable(Exception):
    """Standard output takes nothing: a full disk, most often."""


def prepare() -> None:
    """Characters that the encoding lacks are replaced; a stream that is closed takes everything."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115 - for the rest of the process
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def say(text: str = "") -> None:
    """On standard output, at once. Raises Unwritable, BrokenPipeError."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise Unwritable(error.strerror) from None


def complain(text: str) -> None:
    """A line on standard error; where that fails, the exit status still tells."""
    try:
        print(text, file=sys.stderr, flush=True)
    except OSError:
        _abandon(sys.stderr)


def abandon() -> None:
    """Standard output is lost: what waits in its buffer must not fail at exit."""
    _abandon(sys.stdout)


def _abandon(stream: object) -> None:
    if isinstance(stream, io.TextIOWrapper):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
