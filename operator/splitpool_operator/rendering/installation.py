"""What of a worker's pod does the installation decide, and not the pool?"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Installation:
    """The same for every pool that one operator looks after."""

    worker_image: str
    # Secret with the key `token`, shared by router and workers; pods start without it too.
    internal_secret: str = "splitpool-internal"
