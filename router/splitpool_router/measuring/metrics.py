"""The router's series: the user's view of latency, refusals and queues (splitpool_router_*)."""

import math
from collections.abc import Callable, Iterator

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from splitpool_router.fleet.fleet import Fleet
from splitpool_router.measuring.timing import Identity
from splitpool_router.placing.admission import ClassQueue

EDGES = (
    *(0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5),
    *(0.75, 1, 1.5, 2, 3, 5, 10, 30, 60),
)
_GROUPS = (128, 512, 2048, 8192)
_OWNER = ("pool", "namespace", "class", "model")

Owner = tuple[str, str, str, str]


def length_group(prompt_tokens: int) -> str:
    """The `input` label of a prompt of this length."""
    return next((f"le{edge}" for edge in _GROUPS if prompt_tokens <= edge), "more")


class Metrics:
    """Every series of the router; gauges of queues and workers are read from the fleet."""

    def __init__(self, fleet: Fleet, *, age: Callable[[], float | None]) -> None:
        # The text format would carry each creation time as one more series.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry()
        self.ttft = self._seconds(
            "ttft", "First content written since acceptance", "stream", "input"
        )
        self.service = self._seconds("ttft_service", "TTFT without waiting")
        self.queue = self._seconds("ttft_queue", "Waiting in the router's and the engine's queue")
        self.prefill = self._seconds("ttft_prefill", "First scheduled to first token sampled")
        self.overhead = self._seconds("ttft_overhead", "Everything around the engine", "part")
        self.unexplained = self._seconds("ttft_unexplained", "TTFT that no part accounts for")
        self.e2e = self._seconds("e2e", "Last byte written since acceptance", "input")
        self.target = self._counter(
            "ttft_target", "Streamed requests by whether their first token met the target", "within"
        )
        self.requests = self._counter("requests", "Requests by outcome", "code", "reason")
        self.active = Gauge(
            "splitpool_router_active_streams",
            "Event streams that are being written",
            _OWNER,
            registry=self.registry,
        )
        self.resumes = Counter(
            "splitpool_router_stream_resumes",
            "Reads of a stream by its id, by result",
            ("result",),
            registry=self.registry,
        )
        self._fleet = fleet
        self.registry.register(_FleetCollector(fleet, age))

    def first_token(self, owner: Owner, identity: Identity, *, group: str) -> None:
        """A streamed request has its first token on the way to the client."""
        self.ttft.labels(*owner, "true", group).observe(identity.ttft)
        self.service.labels(*owner).observe(identity.service)
        self.queue.labels(*owner).observe(identity.queue)
        self.prefill.labels(*owner).observe(identity.prefill)
        self.unexplained.labels(*owner).observe(identity.unexplained)
        for part, seconds in identity.overhead.items():
            self.overhead.labels(*owner, part).observe(seconds)

    def render(self) -> bytes:
        """The Prometheus text format."""
        self._declare_targets()
        return generate_latest(self.registry)

    def _declare_targets(self) -> None:
        """Zeros: Prometheus sees no increase in a series whose first sample has it already."""
        for pool in self._fleet.pools.values():
            for cls, spec in pool.classes.items():
                if spec.ttft_p99_ms is not None:
                    owner = (pool.key.name, pool.key.namespace, cls.value, pool.model)
                    for within in ("true", "false"):
                        self.target.labels(*owner, within)

    def _seconds(self, name: str, text: str, *labels: str) -> Histogram:
        return Histogram(
            f"splitpool_router_{name}_seconds",
            text,
            (*_OWNER, *labels),
            buckets=EDGES,
            registry=self.registry,
        )

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(f"splitpool_router_{name}", text, (*_OWNER, *labels), registry=self.registry)


class _FleetCollector(Collector):
    """Queues and workers as they are at the moment of the scrape."""

    def __init__(self, fleet: Fleet, age: Callable[[], float | None]) -> None:
        self._fleet = fleet
        self._age = age

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """One sample per queue and worker."""
        yield from self._queues()
        up = GaugeMetricFamily(
            "splitpool_router_worker_up",
            "Whether a worker may take requests",
            labels=("pool", "namespace", "worker"),
        )
        for worker in self._fleet.workers.values():
            where = worker.endpoint
            up.add_metric((where.pool, where.namespace, where.name), float(worker.serving))
        old = GaugeMetricFamily(
            "splitpool_router_discovery_age_seconds",
            "Since the source of pools and workers was last heard of",
        )
        age = self._age()
        old.add_metric((), math.inf if age is None else age)
        yield from (up, old)

    def _queues(self) -> Iterator[GaugeMetricFamily]:
        read: dict[str, tuple[str, Callable[[ClassQueue], int]]] = {
            "queue_tokens": ("Tokens that wait", lambda queue: queue.waiting_tokens),
            "queue_requests": ("Requests that wait", lambda queue: queue.waiting_requests),
            "running_tokens": ("Tokens that workers hold", lambda queue: queue.outstanding_tokens),
            "running_requests": ("Requests in workers", lambda queue: queue.running_requests),
        }
        for name, (text, value) in read.items():
            family = GaugeMetricFamily(f"splitpool_router_{name}", text, labels=_OWNER)
            for (key, cls), queue in self._fleet.queues.items():
                owner = (key.name, key.namespace, cls.value, self._fleet.pools[key].model)
                family.add_metric(owner, value(queue))
            yield family
