"""What do the workers and the routers themselves say? The question behind Ready, as an interface.

The real answers come over HTTP (`probing`); fake nodes have nobody who could answer.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

from splitpool_operator.declaration.pool import ClassName, InferencePool
from splitpool_operator.reporting.enforcement import WorkerReport
from splitpool_operator.reporting.observed import PodState
from splitpool_operator.reporting.view import Finding


class Probe(Protocol):
    """Asks; never raises."""

    async def workers(self, pods: Sequence[PodState]) -> Mapping[str, WorkerReport]:
        """What ready workers report, by the uid of their pod; silent ones are missing."""

    async def serving(
        self, pool: InferencePool, pods: Sequence[PodState], classes: Sequence[ClassName]
    ) -> Finding | None:
        """Why these classes are not served although these workers are ready, or None."""

    def forget(self, key: tuple[str, str]) -> None:
        """A pool of that namespace and name is gone."""


class Silent:
    """For clusters without workers or routers that could be asked."""

    async def workers(self, pods: Sequence[PodState]) -> Mapping[str, WorkerReport]:
        """Nothing is known."""
        return {}

    async def serving(
        self, pool: InferencePool, pods: Sequence[PodState], classes: Sequence[ClassName]
    ) -> Finding | None:
        """Nothing speaks against it."""
        return None

    def forget(self, key: tuple[str, str]) -> None:
        """Nothing is remembered."""
