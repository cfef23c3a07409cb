"""Large bodies cost others nothing: they are parsed beside the loop, few at a time, and what that
took goes back to the system."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from splitpool_serving import heap

# Parsing a larger one takes milliseconds.
INLINE_BYTES = 64 * 1024
# What a smaller one leaves in the heap is soon used again.
GIVE_BACK_BYTES = 1024 * 1024
_GIVE_BACK_SECONDS = 1.0

T = TypeVar("T")


class LargeBodies:
    """The threads that parse them."""

    def __init__(self, *, at_once: int = 1) -> None:
        self._threads = ThreadPoolExecutor(at_once, thread_name_prefix="large-bodies")
        self._due: asyncio.TimerHandle | None = None

    async def parse(self, body: bytes, parse: Callable[[bytes], T]) -> T:
        """What `parse` makes of a body; here and now where that is small. Raises what it raises."""
        if len(body) <= INLINE_BYTES:
            return parse(body)
        return await asyncio.get_running_loop().run_in_executor(self._threads, parse, body)

    def left(self, size: int) -> None:
        """A body of this size was given up; soon its memory is, once for all that leave now."""
        if size >= GIVE_BACK_BYTES and self._due is None:
            loop = asyncio.get_running_loop()
            self._due = loop.call_later(_GIVE_BACK_SECONDS, self._give_back)

    def close(self) -> None:
        """What is not begun is not done."""
        if self._due is not None:
            self._due.cancel()
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _give_back(self) -> None:
        self._due = None
        self._threads.submit(heap.give_back)
