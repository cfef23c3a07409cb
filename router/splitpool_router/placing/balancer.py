"""Which worker takes a request: the least loaded in tokens, or the one that knows its prefix."""

import hashlib
import random
from collections.abc import Collection, Sequence

from splitpool_router.fleet.workers import Worker
from splitpool_router.placing.classify import LatencyClass

# Consistent hashing with bounded loads (Mirrokni et al. 2018): c = 1.25.
_BOUND = 1.25


def pick(
    workers: Sequence[Worker],
    *,
    cls: LatencyClass,
    cost: int,
    prefix: bytes,
    now: float,
    rng: random.Random,
    exclude: Collection[Worker] = (),
) -> Worker | None:
    """A worker with room for `cost` tokens, or None.

    The preferred worker of the prefix takes it unless it holds more than 1.25 times the mean;
    else the one with the fewest outstanding tokens, ties drawn at random.
    """
    serving = usable(workers, now=now)
    free = [w for w in serving if w.has_room(cls, cost) and w not in exclude]
    if len(free) <= 1:
        return free[0] if free else None
    mean = (sum(worker.held(cls) for worker in serving) + cost) / len(serving)
    preferred = prefer(serving, prefix)
    if preferred in free and preferred.held(cls) <= _BOUND * mean:
        return preferred
    least = min(worker.held(cls) for worker in free)
    return rng.choice([worker for worker in free if worker.held(cls) == least])


def usable(workers: Sequence[Worker], *, now: float) -> list[Worker]:
    """Serving workers whose breaker is closed; a single one is used whatever its breaker says."""
    serving = [worker for worker in workers if worker.serving]
    if len(serving) == 1:
        return serving
    return [worker for worker in serving if worker.breaker.allows(now)]


def prefer(workers: Sequence[Worker], prefix: bytes) -> Worker:
    """The worker of a prefix by rendezvous hashing: one that leaves moves only its own prefixes."""
    return max(workers, key=lambda worker: _score(worker.name, prefix))


def _score(name: str, prefix: bytes) -> bytes:
    return hashlib.blake2b(name.encode(), key=prefix[:64], digest_size=8).digest()
