"""Which batch workers make room: those that share a device with a waiting interactive request."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from splitpool_router.fleet.workers import Worker
from splitpool_router.placing.classify import LatencyClass

TTL_MS = 500
_SHARE = 16


@dataclass(slots=True, kw_only=True, eq=False)
class Pressing:
    """An interactive request without its first token; it presses on one worker or on several."""

    workers: Collection[Worker]
    until: float | None = None


class Pressure:
    """The interactive requests that wait or prefill now."""

    def __init__(self) -> None:
        self._pressing: set[Pressing] = set()

    def press(self, pressing: Pressing) -> None:
        """Presses until it is relieved."""
        self._pressing.add(pressing)

    def relieve(self, pressing: Pressing) -> None:
        """The request has its first token, or has ended; idempotent."""
        self._pressing.discard(pressing)

    def devices(self, now: float) -> frozenset[str]:
        """The devices on which somebody waits."""
        return frozenset(
            worker.report.device
            for pressing in self._pressing
            if pressing.until is None or now < pressing.until
            for worker in pressing.workers
            if worker.report is not None and worker.report.device
        )


def who_yields(workers: Iterable[Worker], devices: Collection[str]) -> list[tuple[Worker, int]]:
    """The batch-only workers on these devices, each with a sixteenth of its token budget."""
    return [
        (worker, budget)
        for worker in workers
        if worker.serving and worker.report is not None and worker.report.device in devices
        if worker.endpoint.classes == {LatencyClass.BATCH}
        if (budget := _yielded(worker)) > 0
    ]


def _yielded(worker: Worker) -> int:
    load = worker.report.load.get(LatencyClass.BATCH) if worker.report else None
    return max(load.token_budget // _SHARE, 1) if load and load.token_budget else 0
