"""How are the pools? Each condition of each pool as a series, read when somebody asks.

Only the replica that leads has seen any pool, so two replicas do not tell the same twice.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from splitpool_operator.cluster.store import Store

_VALUES = {"True": 1.0, "False": 0.0}
_LABELS = ("namespace", "pool", "type", "reason")


class PoolSeries(Collector):
    """`splitpool_operator_pool_condition`, as the status in the store says."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """One sample a condition: 1 True, 0 False, -1 Unknown."""
        family = GaugeMetricFamily(
            "splitpool_operator_pool_condition",
            "A condition of a pool: 1 True, 0 False, -1 Unknown",
            labels=_LABELS,
        )
        for key in self._store.pools():
            for condition in _conditions(self._store.pool(key) or {}):
                labels = (*key, condition["type"], condition["reason"])
                family.add_metric(labels, _VALUES.get(condition["status"], -1.0))
        yield family


def _conditions(pool: Mapping[str, Any]) -> list[dict[str, str]]:
    return list((pool.get("status") or {}).get("conditions") or [])
