"""Streams and callers in the cluster while a test disturbs it, and what came of each."""

import contextlib
import dataclasses
import json
import subprocess
from collections.abc import Iterator, Sequence
from typing import IO, Any

from node.calling import Call
from node.cluster import RealCluster
from node.release import talking
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
    with talking(real, "node.streaming", _spelt(asked)) as process:
        yield OpenStreams(process)


class Callers:
    """Who asks one short question after another; each has had an answer."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        _pipe(process.stdout).readline()

    def stop(self) -> list[Call]:
        """No more questions; what came of those that were answered."""
        said, _ = self._process.communicate("\n")
        return [Call(**each) for each in json.loads(said)]


@contextlib.contextmanager
def calling(real: RealCluster, asked: Asked) -> Iterator[Callers]:
    """Callers in the cluster's network, as many as `asked` has streams; ended with the block."""
    with talking(real, "node.calling", _spelt(asked)) as process:
        yield Callers(process)


def by_worker(streams: Sequence[Told]) -> list[list[Told]]:
    """The streams of each worker."""
    workers = {each.worker for each in streams}
    return [[each for each in streams if each.worker == worker] for worker in sorted(workers)]


def _spelt(asked: Asked) -> str:
    return json.dumps(dataclasses.asdict(asked))


def _pipe(pipe: IO[str] | None) -> IO[str]:
    assert pipe is not None
    return pipe
