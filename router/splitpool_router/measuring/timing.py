"""Where the time to the first token went: every part measured where it happens.

queue + prefill + overhead = TTFT (served), from acceptance at the router to the first content
written; what the parts do not explain is exported as such.
"""

from collections.abc import Mapping
from dataclasses import dataclass

WORKER_PARTS = ("parse", "tokenise", "queue", "prefill", "detokenise")


@dataclass(frozen=True, slots=True, kw_only=True)
class RouterTimes:
    """The router's own spans in seconds, each with its own pair of clock readings."""

    receive: float  # reading the body from the client
    parse: float  # its JSON, the class, the caller
    queue: float  # waiting for a permit
    retry: float  # an attempt at a worker that did not take the request
    call: float  # the call of the worker, to the chunk with the first content
    write: float  # writing the first content


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """The parts of one TTFT."""

    ttft: float
    queue: float
    prefill: float
    overhead: Mapping[str, float]
    unexplained: float

    @property
    def service(self) -> float:
        """The engine's own capability: TTFT without waiting."""
        return max(self.ttft - self.queue, 0.0)


def split(ttft: float, router: RouterTimes, worker: Mapping[str, float] | None) -> Identity:
    """The parts of a TTFT; a worker that says nothing leaves its whole call unexplained."""
    seen = {part: (worker or {}).get(part, 0.0) for part in WORKER_PARTS}
    transport = 0.0 if worker is None else max(router.call - sum(seen.values()), 0.0)
    overhead = {
        "receive": router.receive,
        "parse": router.parse + seen["parse"],
        "tokenise": seen["tokenise"],
        "detokenise": seen["detokenise"],
        "transport": transport,
        "write": router.write,
        "retry": router.retry,
    }
    queue = router.queue + seen["queue"]
    parts = queue + seen["prefill"] + sum(overhead.values())
    return Identity(
        ttft=ttft,
        queue=queue,
        prefill=seen["prefill"],
        overhead=overhead,
        unexplained=abs(ttft - parts),
    )
