"""Where a stream can be found again, and which resumable requests are live."""

import asyncio
import re
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from splitpool_router.errors import DuplicateRequest
from splitpool_router.fleet.workers import Worker
from splitpool_router.placing.classify import LatencyClass

_STREAM_ID = re.compile(r"([0-9a-f]{8})-[0-9a-f]{32}")
_REMEMBERED = 10_000

Name = tuple[str, str]  # caller, request id


def stream_key(stream_id: str) -> str | None:
    """The part of a stream id that names its worker, or None for an id of another shape."""
    match = _STREAM_ID.fullmatch(stream_id)
    return match[1] if match else None


def holder(workers: Iterable[Worker], key: str) -> Worker | None:
    """The known worker with this stream key."""
    return next((w for w in workers if w.report and w.report.stream_key == key), None)


@dataclass(slots=True, kw_only=True, eq=False)
class Live:
    """A resumable request: where it runs, and until when it may be resumed."""

    worker: Worker | None = None
    stream_id: str | None = None
    cls: LatencyClass = LatencyClass.INTERACTIVE
    cost: int = 0
    expires: float | None = None
    readers: int = 0

    def at(self, worker: Worker, stream_id: str | None, *, cls: LatencyClass, cost: int) -> None:
        """The request runs there under this stream id, in a class, at a cost in tokens."""
        self.worker = worker
        self.stream_id = stream_id
        self.cls = cls
        self.cost = cost

    @contextmanager
    def holding(self) -> Iterator[None]:
        """Its tokens are held while somebody reads. While nobody does they are not: the worker
        lets an orphan make way for everyone else, so it must not keep others waiting here."""
        worker = self.worker
        if worker is None:
            yield
            return
        worker.take(self.cls, self.cost)
        try:
            yield
        finally:
            worker.give_back(self.cls, self.cost)


class LiveRequests:
    """Resumable requests by caller and id: a second one with the same id must not run beside it."""

    def __init__(
        self, clock: Callable[[], float], *, runs: Callable[[Worker], bool] = lambda worker: True
    ) -> None:
        self._clock = clock
        self._worker_runs = runs
        self._live: OrderedDict[Name, Live] = OrderedDict()

    @contextmanager
    def hold(self, name: Name, *, window: float) -> Iterator[Live]:
        """Claims the id; after a disconnect the claim lasts as long as the stream may."""
        self._purge()
        if self._runs(name):
            raise DuplicateRequest(
                f"a request with the id {name[1]} is live: read it at /v1/streams/{name[1]}"
                " or send another X-Request-Id",
                param="X-Request-Id",
                curable=False,
            )
        live = Live()
        self._live[name] = live
        self._live.move_to_end(name)
        with self.reading(name, live, window=window):
            yield live

    @contextmanager
    def reading(self, name: Name, live: Live, *, window: float) -> Iterator[None]:
        """Somebody reads the stream; when they are cut off the window runs, else it is over."""
        live.readers += 1
        cut = False
        try:
            yield
        except (asyncio.CancelledError, ConnectionError):
            cut = True
            raise
        finally:
            live.readers -= 1
            if cut:
                live.expires = self._clock() + window
            elif not live.readers and self._live.get(name) is live:
                del self._live[name]

    def find(self, caller: str, wanted: str) -> tuple[Name, Live] | None:
        """The caller's live request with this request id or stream id."""
        for name, live in self._live.items():
            if name[0] == caller and wanted in (name[1], live.stream_id):
                return name, live
        return None

    def forget(self, name: Name) -> None:
        """The request was stopped, or its worker is gone."""
        self._live.pop(name, None)

    def _runs(self, name: Name) -> bool:
        live = self._live.get(name)
        if live is None:
            return False
        if live.readers > 0:
            return True
        return not self._lost(live) and self._clock() < (live.expires or 0.0)

    def _lost(self, live: Live) -> bool:
        """Whether the worker is gone, or is another process than the one that had the stream."""
        worker = live.worker
        if worker is None or not self._worker_runs(worker):
            return True
        key = stream_key(live.stream_id or "")
        return key is not None and worker.report is not None and worker.report.stream_key != key

    def _purge(self) -> None:
        while self._live:
            name = next(iter(self._live))
            if self._runs(name) and len(self._live) < _REMEMBERED:
                return
            del self._live[name]
