"""When a request may be tried at another worker: once, and only before one has accepted it."""

from enum import Enum

ATTEMPTS = 2


class Failure(Enum):
    """How an attempt ended without a usable answer."""

    NOT_SENT = "not sent"  # connect refused, connect timeout: no worker has seen the prompt
    REFUSED = "refused"  # a 503 or 429 head: the worker refused before any work
    BROKEN = "broken"  # reset after the prompt was sent: it may have run
    LATE = "late"  # no head in time: it may still run


def may_retry(failure: Failure, *, attempt: int) -> bool:
    """Whether attempt number `attempt` (from 1) may be followed by one more."""
    return attempt < ATTEMPTS and failure in (Failure.NOT_SENT, Failure.REFUSED)


def refuses(status: int) -> bool:
    """Whether a worker's head says that it took no work."""
    return status in (429, 503)
