"""Which pools and workers exist: whole snapshots, from wherever they come; here, from a file that
is replaced by rename."""

import asyncio
import json
import logging
import os
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from pydantic import ValidationError

from splitpool_router.fleet.pools import Lenient, Pool, from_object
from splitpool_router.fleet.workers import Endpoint

log = logging.getLogger(__name__)

_POLL_SECONDS = 0.15

Stamp = tuple[int, int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """Everything that exists at one moment; what is not in it is gone."""

    generation: int
    pools: tuple[Pool, ...]
    workers: tuple[Endpoint, ...]


class NoSnapshot(Exception):
    """Nothing readable is there (yet); the message says why."""


class Discovery(Protocol):
    """Where snapshots come from."""

    async def read(self) -> Snapshot:
        """What exists now; raises NoSnapshot."""

    async def changed(self) -> None:
        """Returns once another `read` may say something else."""

    def age(self) -> float | None:
        """Seconds since the source was last heard of; None where it never was."""


class _File(Lenient):
    generation: int = 0
    pools: list[dict[str, Any]]
    workers: list[Endpoint]


class FileDiscovery:
    """Snapshots from the endpoints file of local mode."""

    def __init__(
        self,
        path: Path,
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._path = path
        self._sleep = sleep
        self._clock = clock
        self._seen: Stamp | None = None
        self._good: float | None = None
        self._current: Stamp | None = None

    async def read(self) -> Snapshot:
        """The file's content; raises NoSnapshot where it is missing or broken."""
        self._seen = self._stamp()
        snapshot = parse(self._content())
        self._good = self._clock()
        self._current = self._seen
        return snapshot

    async def changed(self) -> None:
        """Returns once the file is another one than that read last."""
        while self._stamp() == self._seen:
            await self._sleep(_POLL_SECONDS)

    def age(self) -> float | None:
        """A file that is still what was read says so at every moment."""
        if self._good is not None and self._stamp() == self._current:
            return 0.0
        return None if self._good is None else self._clock() - self._good

    def _content(self) -> bytes:
        try:
            return self._path.read_bytes()
        except OSError as error:
            raise NoSnapshot(f"endpoints file {self._path}: {error.strerror}") from error

    def _stamp(self) -> Stamp | None:
        try:
            found = os.stat(self._path)
        except OSError:
            return None
        return found.st_ino, found.st_mtime_ns, found.st_size


def parse(content: bytes) -> Snapshot:
    """A snapshot from the bytes of an endpoints file; raises NoSnapshot."""
    try:
        parsed = _File.model_validate(json.loads(content))
        pools = tuple(from_object(manifest) for manifest in parsed.pools)
    except ValidationError as error:
        first = error.errors(include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise NoSnapshot(f"endpoints file: {where}: {first['msg']}") from error
    except ValueError as error:
        raise NoSnapshot(f"endpoints file is not JSON: {error}") from error
    return Snapshot(generation=parsed.generation, pools=pools, workers=tuple(parsed.workers))
