"""What has the operator done? Its series for Prometheus (splitpool_operator_*)."""

from collections.abc import Callable

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.registry import Collector

_EDGES = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 300)


class Series:
    """Every series of one replica; what is due now is read when somebody asks."""

    def __init__(self, due: Callable[[], int], pools: Collector) -> None:
        # The text format would carry each creation time as one more series.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self._registry = CollectorRegistry()
        self._reconciles = Counter(
            "splitpool_operator_reconcile",
            "Pools looked at, by what became of it",
            ["result"],
            registry=self._registry,
        )
        self._seconds = Histogram(
            "splitpool_operator_reconcile_seconds",
            "From the beginning of a look at a pool to its end",
            registry=self._registry,
            buckets=_EDGES,
        )
        self._writes = Counter(
            "splitpool_operator_api_writes",
            "Requests that change the cluster, the Lease's not among them",
            ["verb", "resource"],
            registry=self._registry,
        )
        self._scaled = Counter(
            "splitpool_operator_scale_decisions",
            "Changes of replicas, by why",
            ["namespace", "pool", "class", "reason"],
            registry=self._registry,
        )
        self._readings = Counter(
            "splitpool_operator_signal_reads",
            "Readings of a Prometheus, by result",
            ["result"],
            registry=self._registry,
        )
        self._calls = Counter(
            "splitpool_operator_alert_calls",
            "Calls of the webhook, by result",
            ["result"],
            registry=self._registry,
        )
        waiting = Gauge(
            "splitpool_operator_due_pools",
            "Pools that are to be looked at now or later",
            registry=self._registry,
        )
        waiting.set_function(due)
        self._registry.register(pools)

    def reconciled(self, result: str, seconds: float) -> None:
        """A pool was looked at: done, failed or closing."""
        self._reconciles.labels(result).inc()
        self._seconds.observe(seconds)

    def wrote(self, verb: str, resource: str) -> None:
        """A request that changes something goes out."""
        self._writes.labels(verb, resource).inc()

    def scaled(self, key: tuple[str, str], name: str, reason: str) -> None:
        """The replicas of a class were moved."""
        self._scaled.labels(*key, name, reason).inc()

    def read(self, result: str) -> None:
        """A Prometheus was asked: done or failed."""
        self._readings.labels(result).inc()

    def called(self, result: str) -> None:
        """The webhook was called."""
        self._calls.labels(result).inc()

    def text(self) -> bytes:
        """Everything, in the text format."""
        return generate_latest(self._registry)
