"""What does a day cost under a rule, and how often is the target missed?"""

from collections.abc import Sequence
from dataclasses import dataclass

from splitpool_bench.scaling.policies import LOOK_SECONDS, Policy
from splitpool_bench.scaling.pool import Pool

_MINUTE = 60
_OBJECTIVE = 0.99


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Of one day."""

    requests: int
    # Shares of all requests, and of the minutes with any.
    late: float
    refused: float
    minutes_over: float
    replica_hours: float
    changes: int


def play(pool: Pool, policy: Policy, arrivals: Sequence[float], *, first: int) -> Outcome:
    """The day from its first request to its last look; it begins with so many workers ready."""
    pool.scale(first, started=True)
    coming, changes, held = 0, 0, 0.0
    for look in range(LOOK_SECONDS, pool.seconds + 1, LOOK_SECONDS):
        while coming < len(arrivals) and arrivals[coming] <= look:
            pool.arrive(arrivals[coming])
            coming += 1
        pool.advance(look)
        held += len(pool.replicas) * LOOK_SECONDS
        wanted = policy.wanted(pool)
        changes += wanted != len(pool.replicas)
        pool.scale(wanted)
    return _outcome(pool, held / 3600, changes)


def _outcome(pool: Pool, replica_hours: float, changes: int) -> Outcome:
    counts = pool.counts
    hits, misses = sum(counts.hits), sum(counts.misses)
    minutes = [
        (sum(counts.hits[start : start + _MINUTE]), sum(counts.misses[start : start + _MINUTE]))
        for start in range(0, pool.seconds, _MINUTE)
    ]
    busy = [(hit, missed) for hit, missed in minutes if hit + missed]
    over = sum(hit < _OBJECTIVE * (hit + missed) for hit, missed in busy)
    total = max(hits + misses, 1)
    return Outcome(
        requests=hits + misses,
        late=misses / total,
        refused=sum(counts.refused) / total,
        minutes_over=over / max(len(busy), 1),
        replica_hours=replica_hours,
        changes=changes,
    )
