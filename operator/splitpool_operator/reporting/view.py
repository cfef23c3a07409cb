"""Everything that the status is made of: the declaration, what was planned and what was seen."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from splitpool_operator.autoscaling.state import Decision, Move, Scene, Situation
from splitpool_operator.declaration import defaults
from splitpool_operator.declaration.pool import ClassName, InferencePool
from splitpool_operator.planning import plan
from splitpool_operator.reporting.enforcement import SeenFence, WorkerReport, weakest
from splitpool_operator.reporting.observed import RoleState


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Why a pool is not ready; `final` where it stays so until somebody changes something."""

    reason: str
    message: str
    final: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Scaling:
    """What was measured of a pool, and what autoscaling made of it."""

    # p99 in ms by class, where it is to be written anew, over so many seconds.
    ttft: Mapping[str, int] = field(default_factory=dict)
    window: float = 0.0
    # None where autoscaling does not decide, or not yet.
    scene: Scene | None = None
    decision: Decision | None = None

    @property
    def moves(self) -> list[tuple[ClassName, Situation, Move]]:
        """Of each class what it was and what was decided."""
        if self.scene is None or self.decision is None:
            return []
        moves: list[tuple[ClassName, Situation, Move]] = [
            ("interactive", self.scene.interactive, self.decision.interactive)
        ]
        if self.scene.batch is not None and self.decision.batch is not None:
            moves.append(("batch", self.scene.batch, self.decision.batch))
        return moves

    @property
    def changes(self) -> list[tuple[ClassName, Situation, Move]]:
        """The moves that change replicas."""
        return [each for each in self.moves if each[1].replicas != each[2].replicas]


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """One pool at one moment."""

    generation: int
    # None where the declaration cannot be read.
    pool: InferencePool | None
    # Why nothing, or not everything, was applied.
    refusal: Finding | None = None
    roles: tuple[RoleState, ...] = ()
    # By the uid of the pod.
    reports: Mapping[str, WorkerReport] = field(default_factory=dict)
    # What asking the pool through a router has shown; None where that was not possible yet.
    probe: Finding | None = None
    scaling: Scaling | None = None
    previous: Mapping[str, Any] = field(default_factory=dict)

    def role_of(self, name: ClassName) -> RoleState | None:
        """The workers that serve a class."""
        if self.pool is None:
            return None
        classes = next(each for each in plan.kinds(self.pool.spec) if name in each)
        wanted = plan.role(classes)
        return next((role for role in self.roles if role.name == wanted), None)

    def fence_of(self, role: RoleState) -> SeenFence | None:
        """The weakest fence that a role's workers report; None where one is silent."""
        return self._weakest([role])

    @property
    def fence(self) -> SeenFence | None:
        """The weakest fence of all workers that run; None where one is silent."""
        return self._weakest(self.roles)

    def _weakest(self, roles: Iterable[RoleState]) -> SeenFence | None:
        pods = [pod for role in roles for pod in role.pods if pod.ready and not pod.terminating]
        reports = [self.reports[pod.uid] for pod in pods if pod.uid in self.reports]
        return weakest(reports) if len(reports) == len(pods) else None

    @property
    def minimum(self) -> str:
        """The weakest fence that the pool accepts."""
        sharing = defaults.sharing(self.pool.spec) if self.pool else None
        return sharing.minimum_enforcement if sharing else "Cooperative"

    def enough(self, role: RoleState) -> int:
        """Workers of a role with which it serves: those that autoscaling adds may still come."""
        if self.pool is None or self.pool.spec.autoscaling.mode != "Managed":
            return role.desired
        classes = next(each for each in plan.kinds(self.pool.spec) if plan.role(each) == role.name)
        low = defaults.bounds(self.pool.spec, classes[0]).low
        return min(role.desired, max(low, 1))

    def wakes(self, name: ClassName) -> bool:
        """Whether somebody raises a class from zero when requests wait."""
        if self.pool is None or self.pool.spec.autoscaling.mode == "Off":
            return False
        external = self.pool.spec.autoscaling.mode == "External"
        return external or defaults.bounds(self.pool.spec, name).high > 0
