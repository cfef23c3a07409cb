"""The load of each class as other threads may read it at any time: what the engine last knew
plus what was submitted since."""

from collections.abc import Mapping
from dataclasses import replace
from threading import Lock

from splitpool_worker.schedule.sequence import LatencyClass, Request
from splitpool_worker.schedule.stats import ClassLoad


class LoadBoard:
    def __init__(self, loads: Mapping[LatencyClass, ClassLoad]) -> None:
        self._lock = Lock()
        self._loads = dict(loads)
        self._submitted: dict[str, Request] = {}

    def submitted(self, request: Request) -> None:
        with self._lock:
            self._submitted[request.id] = request

    def publish(self, loads: Mapping[LatencyClass, ClassLoad], known: list[str]) -> None:
        """The engine's new figures, in which these submitted requests are counted."""
        with self._lock:
            self._loads = dict(loads)
            for request_id in known:
                self._submitted.pop(request_id, None)

    def read(self) -> dict[LatencyClass, ClassLoad]:
        with self._lock:
            loads = dict(self._loads)
            unseen = list(self._submitted.values())
        for request in unseen:
            loads[request.cls] = _with(loads[request.cls], request)
        return loads


def _with(load: ClassLoad, request: Request) -> ClassLoad:
    tokens = len(request.prompt) + request.max_tokens
    return replace(
        load,
        outstanding_tokens=load.outstanding_tokens + tokens,
        waiting=load.waiting + 1,
        waiting_tokens=load.waiting_tokens + tokens,
    )
