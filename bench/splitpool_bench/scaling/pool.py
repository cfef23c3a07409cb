"""What becomes of requests in a pool of equal workers? One queue, slots, starts that take time."""

import heapq
import random
from collections import deque
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    """What one worker does; seconds."""

    slots: int = 8
    prefill: float = 0.12
    # A request holds its slot for so long on average (exponentially distributed).
    holds: float = 4.0
    start: float = 60.0


@dataclass(slots=True, eq=False)
class _Replica:
    ready_at: float
    running: int = 0
    leaving: bool = False


@dataclass(slots=True)
class _Waiting:
    came: float
    late: bool = False


@dataclass(slots=True)
class Counts:
    """Of each second: requests that met the target, missed it, were refused; waits of served."""

    hits: list[int]
    misses: list[int]
    refused: list[int]
    waits: list[list[float]]

    @classmethod
    def over(cls, seconds: int) -> "Counts":
        """Of so many seconds."""
        return cls(
            hits=[0] * seconds,
            misses=[0] * seconds,
            refused=[0] * seconds,
            waits=[[] for _ in range(seconds)],
        )


@dataclass(slots=True)
class Pool:
    """The workers, the queue, and what was counted; `advance` moves its clock."""

    worker: Worker
    target: float
    timeout: float
    seconds: int
    seed: int = 0
    now: float = 0.0
    counts: Counts = field(init=False)
    waiting: deque[_Waiting] = field(default_factory=deque)
    replicas: list[_Replica] = field(default_factory=list)
    # When something happens to a replica: a slot becomes free, or it is ready.
    _events: list[tuple[float, int, _Replica, bool]] = field(default_factory=list)
    _number: int = 0
    _rng: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self.counts = Counts.over(self.seconds + 1)
        self._rng = random.Random(self.seed)

    def scale(self, replicas: int, *, started: bool = False) -> None:
        """More workers, ready after their start unless they have started, or fewer: the newest
        go, and end what they have."""
        while len(self.replicas) > replicas:
            self.replicas.pop().leaving = True
        while len(self.replicas) < replicas:
            ready = self.now + (0.0 if started else self.worker.start)
            replica = _Replica(ready)
            self.replicas.append(replica)
            self._push(ready, replica, ends=False)

    @property
    def ready(self) -> int:
        """Workers that take requests."""
        return sum(each.ready_at <= self.now for each in self.replicas)

    @property
    def running(self) -> int:
        """Requests in workers that stay."""
        return sum(each.running for each in self.replicas)

    def arrive(self, at: float) -> None:
        """A request comes."""
        self.advance(at)
        self.waiting.append(_Waiting(at))
        self._pump()

    def advance(self, to: float) -> None:
        """Everything that happens until then."""
        while self._events and self._events[0][0] <= to:
            self.now, _, replica, ends = heapq.heappop(self._events)
            replica.running -= ends
            self._pump()
        self.now = to
        self._give_up()
        for each in self.waiting:
            if self.now - each.came <= self.target:
                break
            self._miss(each)

    def _pump(self) -> None:
        self._give_up()
        while self.waiting:
            free = [
                each
                for each in self.replicas
                if each.ready_at <= self.now and each.running < self.worker.slots
            ]
            if not free:
                return
            self._serve(self.waiting.popleft(), min(free, key=lambda each: each.running))

    def _serve(self, request: _Waiting, replica: _Replica) -> None:
        waited = self.now - request.came
        self.counts.waits[int(self.now)].append(waited)
        if waited + self.worker.prefill > self.target:
            self._miss(request)
        else:
            self.counts.hits[int(self.now)] += 1
        replica.running += 1
        held = self._rng.expovariate(1 / self.worker.holds)
        self._push(self.now + held, replica, ends=True)

    def _give_up(self) -> None:
        while self.waiting and self.now - self.waiting[0].came > self.timeout:
            self._miss(self.waiting[0])
            self.waiting.popleft()
            self.counts.refused[int(self.now)] += 1

    def _miss(self, request: _Waiting) -> None:
        """Once, the moment it is seen to be late."""
        self.counts.misses[int(self.now)] += not request.late
        request.late = True

    def _push(self, at: float, replica: _Replica, *, ends: bool) -> None:
        self._number += 1
        heapq.heappush(self._events, (at, self._number, replica, ends))
