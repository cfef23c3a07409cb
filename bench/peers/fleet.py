"""Which servers are up? One runs and the others stand still; where memory is short, one is stopped.

Servers that stay up are measured in turns without starting anew; those that stand still take no
processor time from the one that is measured.
"""

import json
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import psutil

from peers.processes import Program
from peers.servers import Server
from splitpool_bench.chain import free_port

START_SECONDS = 600.0
_POLL_SECONDS = 0.5
_SPARE_GIB = 2


class DidNotStart(RuntimeError):
    """A server ended or was not ready in time; carries the end of its output."""


@dataclass(slots=True, kw_only=True)
class _Up:
    program: Program
    url: str
    server: Server
    used: float


class Fleet:
    """Servers that have been started; leaving the block stops them all."""

    def __init__(self, make: Callable[[str, str], Server], logs: Path, nice: int | None) -> None:
        """make: a server of that name on that port. nice: priority of all that is measured."""
        self._make = make
        self._logs = logs
        self._nice = nice
        self._up: dict[str, _Up] = {}

    def __enter__(self) -> "Fleet":
        return self

    def __exit__(self, *_: object) -> None:
        for name in list(self._up):
            self._stop(name)

    def only(self, name: str) -> str:
        """The URL of a server that is ready while the others stand still. Raises DidNotStart."""
        for other, each in self._up.items():
            if other != name:
                each.program.hold()
        if name in self._up:
            self._up[name].program.go_on()
        else:
            self._start(name)
        up = self._up[name]
        up.used = time.monotonic()
        self._wait(up)
        self._prefer(up.program)  # its children too, which are all there by now
        return up.url

    def drop(self, name: str) -> None:
        """Stop a server that does not answer as it should."""
        if name in self._up:
            self._stop(name)

    def _start(self, name: str) -> None:
        port = str(free_port())
        server = self._make(name, port)
        self._make_room(server.memory)
        print(f"{server.title}: starting", file=sys.stderr, flush=True)
        program = Program(server.start.command, server.start.env, self._logs / f"{name}.log")
        self._up[name] = _Up(
            program=program, url=f"http://127.0.0.1:{port}", server=server, used=time.monotonic()
        )
        self._prefer(program)

    def _prefer(self, program: Program) -> None:
        if self._nice is not None:
            program.prefer(self._nice)

    def _make_room(self, wanted: int) -> None:
        """Stop those that were used longest ago until a server of so many GiB fits.

        Those that are up may still grow to what they were said to take.
        """
        while self._up and self._promised() + wanted + _SPARE_GIB > self._there():
            self._stop(min(self._up, key=lambda name: self._up[name].used))

    def _promised(self) -> int:
        return sum(each.server.memory for each in self._up.values())

    def _there(self) -> float:
        """GiB that the servers could have, all together."""
        held = sum(each.program.memory for each in self._up.values())
        return float(psutil.virtual_memory().available + held) / 2**30

    def _wait(self, up: _Up) -> None:
        began = time.monotonic()
        while not _ready(up.url + up.server.start.health):
            if up.program.ended:
                raise DidNotStart(f"{up.server.title} ended:\n{up.program.said}")
            if time.monotonic() - began > START_SECONDS:
                raise DidNotStart(
                    f"{up.server.title} is not ready after {START_SECONDS:.0f} s:\n"
                    f"{up.program.said}"
                )
            time.sleep(_POLL_SECONDS)

    def _stop(self, name: str) -> None:
        self._up.pop(name).program.stop()


def _ready(url: str) -> bool:
    """Whether it answers 200, and where it lists pools, whether a worker of each class is ready."""
    try:
        with urllib.request.urlopen(url, timeout=5) as response:
            body = response.read()
    except (OSError, urllib.error.HTTPError):
        return False
    if not url.endswith("/internal/pools"):
        return True
    pools = json.loads(body)["pools"]
    classes = [each for pool in pools for each in pool["classes"].values()]
    return bool(classes) and all(each["ready"] for each in classes)
