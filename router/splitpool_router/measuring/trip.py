"""One request's record: when it passed which point, and what became of it."""

import time
from collections.abc import Mapping

from splitpool_router.fleet.pools import Pool
from splitpool_router.forwarding.ask import Ask
from splitpool_router.measuring.metrics import Metrics, Owner, length_group
from splitpool_router.measuring.target import Target
from splitpool_router.measuring.timing import RouterTimes, split
from splitpool_router.placing.classify import LatencyClass

CLIENT_LEFT = 499

clock = time.monotonic


class Trip:
    """Filled in on the way through the router; writes to the metrics by itself."""

    def __init__(self, metrics: Metrics) -> None:
        self.accepted = clock()
        self.received = self.accepted
        self.parsed = self.accepted
        self.queue = 0.0
        self.retry = 0.0
        self.called = self.accepted
        self._metrics = metrics
        self._owner: Owner = ("", "", "", "")
        self._group = ""
        self._stream = False
        self._target: Target | None = None

    def routed(self, pool: Pool, cls: LatencyClass, ask: Ask, prompt_tokens: int) -> None:
        """The request's pool and class are known, and with them its target."""
        self._owner = (pool.key.name, pool.key.namespace, cls.value, pool.model)
        self._group = length_group(prompt_tokens)
        self._stream = ask.stream
        target_ms = pool.classes[cls].ttft_p99_ms
        if ask.stream and target_ms is not None:
            count = self._metrics.target
            owner = self._owner
            self._target = Target(
                lambda within: count.labels(*owner, str(within).lower()).inc(),
                seconds=target_ms / 1000,
                elapsed=clock() - self.accepted,
            )

    def spilled(self, cls: LatencyClass) -> None:
        """Another class serves the request; the target stays that of the class it asked for."""
        pool, namespace, _, model = self._owner
        self._owner = (pool, namespace, cls.value, model)

    def first_content(
        self, worker: Mapping[str, float] | None, *, arrived: float, writing: float
    ) -> None:
        """The first content, read at `arrived`, was being written since `writing` until now."""
        now = clock()
        times = RouterTimes(
            receive=self.received - self.accepted,
            parse=self.parsed - self.received,
            queue=self.queue,
            retry=self.retry,
            call=arrived - self.called,
            write=now - writing,
        )
        identity = split(now - self.accepted, times, worker)
        self._metrics.first_token(self._owner, identity, group=self._group)
        if self._target is not None:
            self._target.first_token(identity.ttft)

    def streaming(self, change: int) -> None:
        """So many more event streams are being written."""
        self._metrics.active.labels(*self._owner).inc(change)

    def finished(self, status: int, reason: str) -> None:
        """The last byte was written, or the refusal."""
        took = clock() - self.accepted
        if status < 400 and reason == "ok":
            self._metrics.e2e.labels(*self._owner, self._group).observe(took)
            if not self._stream:
                self._metrics.ttft.labels(*self._owner, "false", self._group).observe(took)
        if self._target is not None:
            # After a first token this changes nothing.
            self._target.refused(status if status >= 400 else 500)
        self._count(status, reason)

    def left(self) -> None:
        """The client left, or was cut off for not reading."""
        if self._target is not None:
            self._target.left()
        self._count(CLIENT_LEFT, "client_left")

    def _count(self, status: int, reason: str) -> None:
        self._metrics.requests.labels(*self._owner, str(status), reason).inc()
