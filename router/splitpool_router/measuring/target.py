"""Whether a streamed request met its class's TTFT target; each one counts once.

Overload must not hide itself: a request counts as a miss the moment it passes the target,
whether or not a first token ever comes.
"""

import asyncio
from collections.abc import Callable


class Target:
    """The clock of one request; `count` gets True (within) or False, at most once."""

    def __init__(self, count: Callable[[bool], None], *, seconds: float, elapsed: float) -> None:
        self._count = count
        self._seconds = seconds
        self._settled = False
        self._timer = asyncio.get_running_loop().call_later(
            max(seconds - elapsed, 0.0), self._settle, False
        )

    def first_token(self, ttft: float) -> None:
        """The first content was written so long after acceptance."""
        self._settle(ttft <= self._seconds)

    def refused(self, status: int) -> None:
        """It ended without a first token: a miss, unless the request itself was wrong."""
        if status == 429 or status >= 500:
            self._settle(False)
        else:
            self._cancel()

    def left(self) -> None:
        """The client left before the first token: no verdict, unless the target had passed."""
        self._cancel()

    def _settle(self, within: bool) -> None:
        if not self._settled:
            self._cancel()
            self._count(within)

    def _cancel(self) -> None:
        self._settled = True
        self._timer.cancel()
