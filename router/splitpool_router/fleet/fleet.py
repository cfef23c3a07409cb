"""What the router knows now: the pools, their workers, the queue of each class."""

import random
import time
from collections.abc import Collection, Sequence

from splitpool_router.errors import ModelNotFound, NoReadyWorker, ShuttingDown
from splitpool_router.fleet.discovery import Snapshot
from splitpool_router.fleet.estimate import Estimator
from splitpool_router.fleet.pools import Pool, PoolKey, serving
from splitpool_router.fleet.workers import Endpoint, Worker
from splitpool_router.placing.admission import Claim, ClassQueue, Clock, Rules
from splitpool_router.placing.balancer import pick
from splitpool_router.placing.classify import LatencyClass

WorkerKey = tuple[str, str, str, str]


class Fleet:
    """The live state behind the routes; `apply` makes it what a snapshot says."""

    def __init__(self, *, clock: Clock = time.monotonic, rng: random.Random | None = None) -> None:
        self.clock = clock
        self.generation: int | None = None
        self.pools: dict[PoolKey, Pool] = {}
        self.workers: dict[WorkerKey, Worker] = {}
        self.queues: dict[tuple[PoolKey, LatencyClass], ClassQueue] = {}
        self._by_model: dict[str, Pool] = {}
        self._by_pool: dict[PoolKey, list[Worker]] = {}
        self._estimators: dict[str, Estimator] = {}
        self._rng = rng or random.Random()
        self._shutting_down = False

    def apply(self, snapshot: Snapshot) -> None:
        """Adds what is new, replaces what restarted, drops what is gone, wakes who waits."""
        self.generation = snapshot.generation
        self.pools = {pool.key: pool for pool in snapshot.pools}
        self._by_model = serving(snapshot.pools)
        self.workers = {_key(endpoint): self._worker(endpoint) for endpoint in snapshot.workers}
        self._by_pool = {}
        for worker in self.workers.values():
            self._by_pool.setdefault(worker.endpoint.pool_key, []).append(worker)
        self._apply_queues()
        self.pump()

    def pool_of(self, model: str) -> Pool:
        """The pool that serves a model; raises ModelNotFound."""
        pool = self._by_model.get(model)
        if pool is None:
            known = ", ".join(sorted(self._by_model)) or "none"
            raise ModelNotFound(
                f"no pool serves the model {model[:200]!r}; served are: {known}", param="model"
            )
        return pool

    def queue_of(self, pool: Pool, cls: LatencyClass) -> ClassQueue:
        """The queue of a class; raises ModelNotFound where the pool does not have the class."""
        queue = self.queues.get((pool.key, cls))
        if queue is None:
            raise ModelNotFound(
                f"the pool of model {pool.model!r} has no class {cls.value}", param="model"
            )
        return queue

    def models(self) -> list[Pool]:
        """The pools that serve a model name, by that name."""
        return [pool for _, pool in sorted(self._by_model.items())]

    def estimator(self, model: str) -> Estimator:
        """What was learned about a model's tokens."""
        return self._estimators.setdefault(model, Estimator())

    def workers_of(self, pool: PoolKey) -> Sequence[Worker]:
        """The workers of a pool, of any class."""
        return self._by_pool.get(pool, ())

    def runs(self, worker: Worker) -> bool:
        """Whether this incarnation of a worker still answers."""
        return worker.reachable and self.workers.get(_key(worker.endpoint)) is worker

    def pump(self) -> None:
        """Lets in who may enter now."""
        for queue in self.queues.values():
            queue.pump()

    def pump_for(self, worker: Worker) -> None:
        """Lets in who may enter now that a worker says something else."""
        for cls in worker.endpoint.classes:
            queue = self.queues.get((worker.endpoint.pool_key, cls))
            if queue is not None:
                queue.pump()

    def shut_down(self) -> None:
        """Refuses new requests; those that wait or run go on."""
        self._shutting_down = True

    def refuse_when_shutting_down(self) -> None:
        """Raises ShuttingDown while the router drains."""
        if self._shutting_down:
            raise _shutting_down()

    def turn_away(self) -> None:
        """Refuses those that wait, too."""
        for queue in self.queues.values():
            queue.close(_shutting_down())

    @property
    def shutting_down(self) -> bool:
        """Whether the router drains."""
        return self._shutting_down

    def _worker(self, endpoint: Endpoint) -> Worker:
        known = self.workers.get(_key(endpoint))
        if known is None:
            return Worker(endpoint=endpoint)
        known.endpoint = endpoint
        return known

    def _apply_queues(self) -> None:
        wanted = {(pool.key, cls): pool for pool in self.pools.values() for cls in pool.classes}
        for key in self.queues.keys() - wanted.keys():
            self.queues.pop(key).close(NoReadyWorker("the pool was removed", curable=False))
        for (pool_key, cls), pool in wanted.items():
            queue = self.queues.get((pool_key, cls)) or self._queue(pool, cls)
            queue.rules = _rules(pool, cls)
            queue.workers = [w for w in self.workers_of(pool_key) if cls in w.endpoint.classes]
            self.queues[(pool_key, cls)] = queue

    def _queue(self, pool: Pool, cls: LatencyClass) -> ClassQueue:
        def choose(claim: Claim, exclude: Collection[Worker]) -> Worker | None:
            return pick(
                queue.workers,
                cls=cls,
                cost=claim.cost,
                prefix=claim.prefix,
                now=self.clock(),
                rng=self._rng,
                exclude=exclude,
            )

        queue = ClassQueue(_rules(pool, cls), pick=choose, clock=self.clock)
        return queue


def _shutting_down() -> ShuttingDown:
    text = "this router is shutting down"
    return ShuttingDown(text, retry_after=1, headers={"Connection": "close"})


def _key(endpoint: Endpoint) -> WorkerKey:
    return endpoint.namespace, endpoint.name, endpoint.uid, endpoint.url


def _rules(pool: Pool, cls: LatencyClass) -> Rules:
    spec = pool.classes[cls]
    return Rules(
        name=f"class {cls.value} of pool {pool.key.name}",
        cls=cls,
        queue_timeout=spec.queue_timeout_seconds,
        max_queue_tokens=spec.max_queue_tokens,
        can_have_workers=cls in pool.can_have_workers,
    )
