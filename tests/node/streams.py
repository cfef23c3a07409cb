"""Streams that are open in the cluster while a test disturbs it, and what came of each."""

import contextlib
import dataclasses
import json
import subprocess
from collections.abc import Iterator, Sequence
from typing import IO, Any

from node.cluster import RealCluster
from node.release import program
from node.streaming import Asked, Told


class OpenStreams:
    """Streams of which each has had a token."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.asked_for = self._answer()

    @property
    def open(self) -> int:
        """How many have not ended."""
        _pipe(self._process.stdin).write("\n")
        _pipe(self._process.stdin).flush()
        return int(self._answer())

    def told(self) -> Sequence[Told]:
        """All of them, once they have ended."""
        # Answers that nobody waited for are numbers.
        *_, last = _pipe(self._process.stdout)
        return [Told(**each) for each in json.loads(last)]

    def _answer(self) -> Any:
        return json.loads(_pipe(self._process.stdout).readline())


@contextlib.contextmanager
def streaming(real: RealCluster, asked: Asked) -> Iterator[OpenStreams]:
    """Streams in the cluster's network, which all have had a token; ended with the block."""
    command, settings = program("node.streaming", json.dumps(dataclasses.asdict(asked)))
    with subprocess.Popen(
        real.inside(command),
        env=settings,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield OpenStreams(process)
        finally:
            process.kill()


def by_worker(streams: Sequence[Told]) -> list[list[Told]]:
    """The streams of each worker."""
    workers = {each.worker for each in streams}
    return [[each for each in streams if each.worker == worker] for worker in sorted(workers)]


def _pipe(pipe: IO[str] | None) -> IO[str]:
    assert pipe is not None
    return pipe
