"""From the engine's thread to the event loop: one hop per step, then to whoever asked."""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from typing import Protocol

from splitpool_worker.schedule.sequence import TokenOutput

log = logging.getLogger(__name__)


class Recipient(Protocol):
    """Who gets the outputs of a request."""

    def deliver(self, output: TokenOutput, now: float) -> None: ...

    def broke(self, error: Exception) -> None:
        """`deliver` raised: this request is lost, the others are not."""


class Delivery:
    """Request ids and who waits for their outputs. Only `on_outputs` runs off the loop."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._loop = loop
        self._clock = clock
        self._recipients: dict[str, Recipient] = {}

    def expect(self, request_id: str, recipient: Recipient) -> None:
        """Outputs of `request_id` go to `recipient` from now on."""
        self._recipients[request_id] = recipient

    def forget(self, request_id: str) -> None:
        """Nobody waits for `request_id` any more."""
        self._recipients.pop(request_id, None)

    def on_outputs(self, outputs: Sequence[TokenOutput]) -> None:
        """All outputs of a step, from the engine's thread."""
        self._loop.call_soon_threadsafe(self._deliver, outputs)

    def _deliver(self, outputs: Sequence[TokenOutput]) -> None:
        now = self._clock()
        for output in outputs:
            recipient = self._recipients.get(output.request_id)
            if recipient is None:
                continue
            try:
                recipient.deliver(output, now)
            except Exception as error:  # one request's fault must not cost the others theirs
                log.exception("request failed in delivery", extra={"id": output.request_id})
                recipient.broke(error)
