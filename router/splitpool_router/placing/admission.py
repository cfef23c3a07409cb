"""Who may enter a class of a pool, who waits for it, and who is turned away.

A class holds a bounded sum of tokens: what its workers can hold plus what may wait. The
bound is on the sum, not on its parts, so that it is the same whatever the mix of sizes.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Self

from splitpool_router.errors import NoReadyWorker, QueueFull, QueueTimeout, ShuttingDown
from splitpool_router.fleet.breaker import Verdict
from splitpool_router.fleet.workers import Worker
from splitpool_router.placing.classify import LatencyClass

Clock = Callable[[], float]

_QUEUE_FACTOR = 4
# Before a worker has said what it holds: enough for a burst at start-up.
_UNKNOWN_KV_TOKENS = 16384
_DRAIN_WINDOW = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """What a request asks a class for."""

    cost: int
    prefix: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The limits of a class in its pool."""

    name: str
    cls: LatencyClass
    queue_timeout: float
    max_queue_tokens: int | None
    can_have_workers: bool


Pick = Callable[[Claim, Collection[Worker]], Worker | None]


class Permit:
    """The right to use a worker, held to the last byte: `with await queue.permit(claim)`."""

    __slots__ = ("_held", "_queue", "_trial", "claim", "deadline", "worker")

    def __init__(self, queue: "ClassQueue", claim: Claim, worker: Worker, deadline: float) -> None:
        self.claim = claim
        self.deadline = deadline
        self.worker = worker
        self._queue = queue
        self._held = False
        self._trial = False
        self._take(worker)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.release()

    def report(self, outcome: Verdict) -> None:
        """What the worker's answer says about its health."""
        self.worker.breaker.end(outcome, self._queue.clock(), trial=self._trial)
        self._trial = False

    def move(self) -> bool:
        """To another worker that has room now; false where there is none."""
        other = self._queue.pick(self.claim, (self.worker,))
        if other is None:
            return False
        self._drop()
        self._take(other)
        return True

    async def wait_again(self) -> None:
        """Before everyone who came later, for any worker; raises like the first wait."""
        self._drop()
        granted = await self._queue.wait(self.claim, self.deadline, first=True)
        self.worker, self._held, self._trial = granted.worker, True, granted._trial

    def release(self) -> None:
        """The request is over; idempotent."""
        if self._held:
            self._queue.note_drained(self.claim.cost)
        self._drop()
        self._queue.pump()

    def _take(self, worker: Worker) -> None:
        self.worker = worker
        self._trial = worker.breaker.begin()
        worker.take(self._queue.rules.cls, self.claim.cost)
        self._held = True

    def _drop(self) -> None:
        if not self._held:
            return
        self._held = False
        if self._trial:
            self.report(Verdict.NEUTRAL)
        self.worker.give_back(self._queue.rules.cls, self.claim.cost)


class _Waiter:
    __slots__ = ("claim", "deadline", "future", "queued")

    def __init__(self, claim: Claim, deadline: float) -> None:
        self.claim = claim
        self.deadline = deadline
        self.future: asyncio.Future[Permit] = asyncio.get_running_loop().create_future()
        self.queued = True


class ClassQueue:
    """The requests of one class of one pool, served in the order of their arrival."""

    def __init__(self, rules: Rules, *, pick: Pick, clock: Clock) -> None:
        self.rules = rules
        self.pick = pick
        self.clock = clock
        self.workers: list[Worker] = []
        self.waiting_tokens = 0
        self._waiting: deque[_Waiter] = deque()
        self._closed: ShuttingDown | NoReadyWorker | None = None
        self._kv_tokens = 0
        self._drains: deque[tuple[float, int]] = deque()

    @property
    def waiting_requests(self) -> int:
        """Requests that wait."""
        return len(self._waiting)

    @property
    def outstanding_tokens(self) -> int:
        """Tokens that the workers hold."""
        return sum(worker.held(self.rules.cls) for worker in self.workers)

    @property
    def running_requests(self) -> int:
        """Requests that the workers hold."""
        return sum(worker.requests.get(self.rules.cls, 0) for worker in self.workers)

    @property
    def limit_tokens(self) -> int:
        """Tokens that may run and wait together."""
        kv = self._known_kv_tokens()
        may_wait = self.rules.max_queue_tokens
        return kv + (_QUEUE_FACTOR * kv if may_wait is None else may_wait)

    @property
    def ready_workers(self) -> int:
        """Workers that may take requests."""
        return sum(worker.serving for worker in self.workers)

    async def permit(self, claim: Claim) -> Permit:
        """A worker for the claim, held until the permit's block is left; raises the refusals of
        errors."""
        self._refuse(claim)
        return await self._enter(claim, self.clock() + self.rules.queue_timeout)

    async def wait(self, claim: Claim, deadline: float, *, first: bool = False) -> Permit:
        """A permit when it is this claim's turn, or the refusal of its class at the deadline."""
        waiter = _Waiter(claim, deadline)
        self._push(waiter, first=first)
        delay = max(deadline - self.clock(), 0)
        timer = asyncio.get_running_loop().call_later(delay, self._expire, waiter)
        self.pump()
        try:
            return await waiter.future
        except asyncio.CancelledError:
            self._withdraw(waiter)
            raise
        finally:
            timer.cancel()

    def pump(self) -> None:
        """Serves the head of the queue while there is room for it; call when room may have come."""
        while self._waiting:
            waiter = self._waiting[0]
            if waiter.future.done():
                # Its client left in this very round of the loop.
                self._pull(waiter)
                continue
            worker = self.pick(waiter.claim, ())
            if worker is None:
                return
            self._pull(waiter)
            waiter.future.set_result(Permit(self, waiter.claim, worker, waiter.deadline))

    def note_drained(self, tokens: int) -> None:
        """The class has finished with so many tokens."""
        now = self.clock()
        self._drains.append((now, tokens))
        while self._drains[0][0] < now - _DRAIN_WINDOW:
            self._drains.popleft()

    def close(self, reason: ShuttingDown | NoReadyWorker) -> None:
        """Refuses who comes from now on, and who waits."""
        self._closed = reason
        while self._waiting:
            waiter = self._waiting[0]
            self._pull(waiter)
            if not waiter.future.done():
                waiter.future.set_exception(reason)

    def retry_after(self) -> int:
        """Seconds until what waits now has probably drained, within 1..30."""
        drained = sum(tokens for _, tokens in self._drains)
        if not drained:
            return 5
        span = max(self.clock() - self._drains[0][0], 1.0)
        return min(max(round(self.waiting_tokens * span / drained), 1), 30)

    async def _enter(self, claim: Claim, deadline: float) -> Permit:
        if not self._waiting:
            worker = self.pick(claim, ())
            if worker is not None:
                return Permit(self, claim, worker, deadline)
        return await self.wait(claim, deadline)

    def _refuse(self, claim: Claim) -> None:
        if self._closed is not None:
            raise self._closed
        if not self.ready_workers and not self.rules.can_have_workers:
            text = f"{self.rules.name} has no worker and its pool declares none"
            raise NoReadyWorker(text, curable=False)
        held = self.outstanding_tokens + self.waiting_tokens
        if held and held + claim.cost > self.limit_tokens:
            raise QueueFull(
                f"{self.rules.name} holds {held} tokens; {claim.cost} more would exceed its limit"
                f" of {self.limit_tokens}: send less at once or retry later",
                retry_after=self.retry_after(),
            )

    def _expire(self, waiter: _Waiter) -> None:
        if waiter.future.done():
            return
        self._pull(waiter)
        waited = f"the request waited {self.rules.queue_timeout:g} s for {self.rules.name}"
        if self.ready_workers:
            waiter.future.set_exception(QueueTimeout(waited, retry_after=self.retry_after()))
        else:
            text = f"{waited}, which has no ready worker"
            waiter.future.set_exception(NoReadyWorker(text, retry_after=5))
        self.pump()

    def _withdraw(self, waiter: _Waiter) -> None:
        """The client left: gives back what had just been granted, or the place."""
        if waiter.future.cancelled():
            self._pull(waiter)
            self.pump()
        elif waiter.future.exception() is None:
            waiter.future.result().release()

    def _push(self, waiter: _Waiter, *, first: bool) -> None:
        if first:
            self._waiting.appendleft(waiter)
        else:
            self._waiting.append(waiter)
        self.waiting_tokens += waiter.claim.cost

    def _pull(self, waiter: _Waiter) -> None:
        if not waiter.queued:
            return
        waiter.queued = False
        self._waiting.remove(waiter)
        self.waiting_tokens -= waiter.claim.cost

    def _known_kv_tokens(self) -> int:
        """What the ready workers hold together, or held when there last was one."""
        kv = sum(w.window(self.rules.cls) for w in self.workers if w.serving)
        self._kv_tokens = kv or self._kv_tokens
        return self._kv_tokens or _UNKNOWN_KV_TOKENS
