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

    def measure(self, callers: int, answers: int) -> float:
        """Answers a second that so many callers get, over so many of them."""
        return float(self._told(f"measure {callers} {answers}"))

    def offer(self, rate: float) -> None:
        """So many requests a second from now on."""
        self._told(f"offer {rate}")

    def keep(self, name: str) -> None:
        """One request of a class after another from now on."""
        self._told(f"keep {name}")

    def end(self) -> list[int]:
        """The statuses of those, once the last one has been answered."""
        return [int(each) for each in self._told("end").split()]

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
