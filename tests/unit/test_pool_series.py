"""The operator tells Prometheus what the status of each pool says."""

from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from splitpool_operator.cluster.kinds import POOL
from splitpool_operator.cluster.pool_series import PoolSeries
from splitpool_operator.cluster.series import Series
from splitpool_operator.cluster.store import Store


def put(store: Store, name: str, version: int, **conditions: tuple[str, str]) -> None:
    """A pool, and of each condition its status and reason."""
    status = {
        "conditions": [
            {"type": kind, "status": value, "reason": reason}
            for kind, (value, reason) in conditions.items()
        ]
    }
    metadata = {"namespace": "team", "name": name, "uid": name, "resourceVersion": str(version)}
    store.put(POOL, {"metadata": metadata, "status": status if conditions else None})


def told(store: Store) -> dict[tuple[str, ...], float]:
    """Pool, type and reason of every sample."""
    text = Series(lambda: 0, PoolSeries(store)).text().decode()
    return {
        tuple(sample.labels[name] for name in ("pool", "type", "reason")): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == "splitpool_operator_pool_condition"
    }


def test_every_condition_of_every_pool_is_told() -> None:
    store = Store()
    put(store, "a", 1, Ready=("True", "Serving"), QuotaEnforced=("Unknown", "NotReported"))
    put(store, "b", 2, Ready=("False", "WorkersStarting"))
    put(store, "new", 3)

    assert told(store) == {
        ("a", "Ready", "Serving"): 1,
        ("a", "QuotaEnforced", "NotReported"): -1,
        ("b", "Ready", "WorkersStarting"): 0,
    }


def test_a_reason_that_has_passed_is_told_no_more() -> None:
    store = Store()
    put(store, "a", 1, Ready=("False", "WorkersStarting"))
    put(store, "a", 2, Ready=("True", "Serving"))
    gone: Any = {"metadata": {"namespace": "team", "name": "b", "uid": "b", "resourceVersion": "1"}}
    put(store, "b", 1, Ready=("True", "Serving"))
    store.drop(POOL, gone)

    assert told(store) == {("a", "Ready", "Serving"): 1}
