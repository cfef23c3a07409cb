"""A load in the cluster whose rate a test sets, and what it is told of it."""

import contextlib
import subprocess
from collections.abc import Iterator

from node.cluster import RealCluster
from node.release import service_url, talking


class Offers:
    """The program `node.offering` of a test."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def measure(self, callers: int, seconds: float) -> float:
        """Answers a second that so many callers get."""
        return float(self._told(f"measure {callers} {seconds:g}"))

    def offer(self, rate: float) -> None:
        """So many requests a second from now on."""
        self._told(f"offer {rate}")

    def ask(self, name: str) -> int:
        """The status of one answer of a class."""
        return int(self._told(f"ask {name}"))

    def _told(self, line: str) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()
        return self._process.stdout.readline()


@contextlib.contextmanager
def offering(real: RealCluster, model: str) -> Iterator[Offers]:
    """Through the router's Service, until the end of the block."""
    with talking(real, "node.offering", service_url(real), model) as process:
        yield Offers(process)
