"""What does autoscaling want for a pool now? Signals and objects to the law, its answer back."""

import time
from collections.abc import Callable, Mapping
from typing import Any

from splitpool_operator.autoscaling.law import decide
from splitpool_operator.autoscaling.signals import Signals
from splitpool_operator.autoscaling.state import Pace
from splitpool_operator.cluster import kinds
from splitpool_operator.cluster.prometheus import Prometheus
from splitpool_operator.cluster.scene import Measured, scene
from splitpool_operator.cluster.store import Key, Store
from splitpool_operator.declaration.pool import CLASSES, InferencePool
from splitpool_operator.planning.quota import DoesNotFit
from splitpool_operator.rendering import names
from splitpool_operator.reporting.view import Scaling

# Figures that move with traffic are written at most so often.
_FIGURES_SECONDS = 60.0


class Autoscaler:
    """Decides for one pool at a time."""

    def __init__(
        self,
        store: Store,
        prometheus: Prometheus,
        pace: Pace,
        waiting: Callable[[Key], Mapping[str, int]],
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._store = store
        self._prometheus = prometheus
        self._waiting = waiting
        self._clock = clock
        self._shown: dict[Key, float] = {}
        self.pace = pace

    async def scaling(self, pool: InferencePool, status: Mapping[str, Any]) -> Scaling:
        """What is measured, and with mode Managed what should become of the replicas."""
        measured = await self._measured(pool)
        ttft = self._ttft(pool.key, measured.signals)
        if pool.spec.autoscaling.mode != "Managed":
            return Scaling(ttft=ttft, window=self.pace.window)
        try:
            seen = scene(
                pool,
                status,
                self._deployments(pool.key),
                self._store.of_pool(kinds.POD, pool.key),
                measured,
                self._clock(),
            )
        except DoesNotFit:
            # The plan says so too, and with it what helps.
            seen = None
        decision = None if seen is None else decide(seen, self.pace)
        return Scaling(ttft=ttft, window=self.pace.window, scene=seen, decision=decision)

    def again(self, pool: InferencePool) -> float | None:
        """The seconds after which to look at a pool again; None where nothing is measured."""
        if pool.spec.autoscaling.mode == "Managed":
            return self.pace.look
        own = pool.spec.autoscaling.prometheus
        return _FIGURES_SECONDS if own or self._prometheus.has_source else None

    def forget(self, key: Key) -> None:
        """A pool of that namespace and name is gone."""
        self._shown.pop(key, None)

    async def _measured(self, pool: InferencePool) -> Measured:
        own = pool.spec.autoscaling.prometheus
        reading = await self._prometheus.reading(own.url if own else None)
        found = {name: reading.signals.get((*pool.key, name)) for name in CLASSES}
        return Measured(
            signals={name: each for name, each in found.items() if each is not None},
            silence=reading.trouble or "Prometheus has no series of the class from any router",
            waiting=self._waiting(pool.key),
        )

    def _deployments(self, key: Key) -> dict[str, Mapping[str, Any]]:
        live = self._store.of_pool(kinds.DEPLOYMENT, key)
        return {each["metadata"]["labels"].get(names.CLASS, ""): each for each in live}

    def _ttft(self, key: Key, signals: Mapping[str, Signals]) -> dict[str, int]:
        """p99 in ms of the classes with traffic, where it is time to write it again."""
        now = self._clock()
        if now - self._shown.get(key, 0.0) < _FIGURES_SECONDS:
            return {}
        found = {
            name: _rounded(each.ttft)
            for name, each in signals.items()
            if each.ttft is not None and each.age <= self.pace.stale
        }
        if found:
            self._shown[key] = now
        return found


def _rounded(seconds: float) -> int:
    """Milliseconds to two digits."""
    return int(float(f"{min(seconds, 1e6) * 1000:.2g}"))
