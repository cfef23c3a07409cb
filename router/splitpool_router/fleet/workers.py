"""One worker as the router sees it: where it is, what it said last, what it holds."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from pydantic import Field

from splitpool_router.fleet.breaker import Breaker
from splitpool_router.fleet.pools import Lenient, PoolKey
from splitpool_router.placing.classify import LatencyClass


class Endpoint(Lenient):
    """A line of the endpoints file; `uid` changes when the worker restarts."""

    pool: str
    namespace: str = "default"
    name: str
    classes: frozenset[LatencyClass]
    url: str
    uid: str
    terminating: bool = False

    @property
    def pool_key(self) -> PoolKey:
        """The pool that the worker belongs to."""
        return PoolKey(namespace=self.namespace, name=self.pool)


class ClassLoad(Lenient):
    """`load.CLASS` of a worker's /ready."""

    outstanding_tokens: int = 0
    waiting: int = 0
    running: int = 0
    waiting_tokens: int = 0
    kv_tokens: int = 0
    token_budget: int = 0


class Report(Lenient):
    """A worker's /ready."""

    pool: str = ""
    namespace: str = ""
    name: str = ""
    ready: bool
    draining: bool = False
    device: str = ""
    stream_key: str = ""
    max_model_len: int | None = None
    load: Mapping[LatencyClass, ClassLoad] = Field(default_factory=dict)

    def of(self, endpoint: Endpoint) -> bool:
        """Whether the worker that discovery named says this: addresses are used again, and what
        is known of them may be old. An endpoint without a uid was not named by its worker."""
        if not endpoint.uid:
            return (self.namespace, self.pool) == (endpoint.namespace, endpoint.pool)
        said = (self.namespace, self.pool, self.name)
        return said == (endpoint.namespace, endpoint.pool, endpoint.name)


@dataclass(slots=True, kw_only=True, eq=False)
class Worker:
    """One incarnation of a worker; a restart makes a new one, with a fresh breaker and counts."""

    endpoint: Endpoint
    report: Report | None = None
    reachable: bool = False
    breaker: Breaker = field(default_factory=Breaker)
    outstanding: dict[LatencyClass, int] = field(default_factory=dict)
    requests: dict[LatencyClass, int] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The worker's name, unique in its namespace."""
        return self.endpoint.name

    @property
    def serving(self) -> bool:
        """May take new requests: discovery's word first, then draining, then the probe."""
        if self.endpoint.terminating or self.report is None or self.report.draining:
            return False
        return self.reachable and self.report.ready

    def window(self, cls: LatencyClass) -> int:
        """Tokens that the worker can hold of a class: what its KV cache holds."""
        load = self.report.load.get(cls) if self.report else None
        return load.kv_tokens if load else 0

    def has_room(self, cls: LatencyClass, cost: int) -> bool:
        """Whether a request of this cost fits beside what the worker holds; one always does."""
        if not self.requests.get(cls):
            return True
        return self.held(cls) + cost <= self.window(cls)

    def held(self, cls: LatencyClass) -> int:
        """Tokens of the class that were sent to the worker and are not answered yet."""
        return self.outstanding.get(cls, 0)

    def take(self, cls: LatencyClass, cost: int) -> None:
        """A request goes to the worker."""
        self.outstanding[cls] = self.held(cls) + cost
        self.requests[cls] = self.requests.get(cls, 0) + 1

    def give_back(self, cls: LatencyClass, cost: int) -> None:
        """The request has left the worker; an idle worker holds exactly nothing."""
        self.requests[cls] = max(self.requests.get(cls, 0) - 1, 0)
        self.outstanding[cls] = max(self.held(cls) - cost, 0) if self.requests[cls] else 0
