"""What is the state of a pool's workers, read off Deployments and pods as the API shows them?"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from splitpool_operator.rendering import names
from splitpool_operator.reporting.trouble import Trouble, of_deployment, of_pod


@dataclass(frozen=True, slots=True, kw_only=True)
class PodState:
    """One worker's pod."""

    name: str
    uid: str
    ip: str
    ready: bool
    terminating: bool
    # Runs what the pool declares now.
    current: bool
    # Has a node, but not yet what has to be there before its containers: volumes, devices, network.
    held: bool = False
    trouble: Trouble | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleState:
    """The workers of a role; `exists` once there is a Deployment that its controller has seen."""

    name: str
    desired: int
    exists: bool
    pods: tuple[PodState, ...]
    # Why there are fewer pods than there should be.
    trouble: Trouble | None = None

    @property
    def ready(self) -> int:
        """Workers that take requests, of whatever revision."""
        return sum(pod.ready and not pod.terminating for pod in self.pods)

    @property
    def updated(self) -> int:
        """Workers of the present revision."""
        return sum(pod.current and not pod.terminating for pod in self.pods)

    @property
    def current(self) -> int:
        """Workers of the present revision that take requests."""
        return sum(pod.ready and pod.current and not pod.terminating for pod in self.pods)

    @property
    def outdated(self) -> int:
        """Workers of an older revision that still run."""
        return sum(not pod.current and not pod.terminating for pod in self.pods)


def role_state(
    manifest: Mapping[str, Any],
    live: Mapping[str, Any] | None,
    pods: Iterable[Mapping[str, Any]],
    *,
    initial: int,
) -> RoleState:
    """The state of the role whose Deployment the manifest is; initial: its replicas before."""
    wanted = names.revision(manifest["spec"]["template"])
    role = manifest["metadata"]["labels"][names.CLASS]
    mine = [pod for pod in pods if _label(pod, names.CLASS) == role]
    return RoleState(
        name=role,
        desired=initial if live is None else live["spec"].get("replicas", 1),
        exists=live is not None and _seen_by_controller(live),
        pods=tuple(pod_state(pod, wanted) for pod in mine if not _finished(pod)),
        trouble=of_deployment((live or {}).get("status") or {}),
    )


def pod_state(pod: Mapping[str, Any], revision: str) -> PodState:
    """The state of one pod, which runs the present declaration where it carries its revision."""
    metadata, status = pod["metadata"], pod.get("status") or {}
    conditions = {each["type"]: each for each in status.get("conditions") or []}
    ready = conditions.get("Ready", {}).get("status") == "True"
    return PodState(
        name=metadata["name"],
        uid=metadata["uid"],
        ip=status.get("podIP", ""),
        ready=ready,
        terminating="deletionTimestamp" in metadata,
        current=(metadata.get("annotations") or {}).get(names.REVISION) == revision,
        held=conditions.get("PodReadyToStartContainers", {}).get("status") == "False",
        trouble=None if ready else of_pod(status),
    )


def _seen_by_controller(live: Mapping[str, Any]) -> bool:
    observed = (live.get("status") or {}).get("observedGeneration", 0)
    return bool(observed >= live["metadata"].get("generation", 0))


def _label(pod: Mapping[str, Any], label: str) -> str | None:
    return (pod["metadata"].get("labels") or {}).get(label)


def _finished(pod: Mapping[str, Any]) -> bool:
    """Evicted or otherwise over: its Deployment has replaced it."""
    return (pod.get("status") or {}).get("phase") in {"Failed", "Succeeded"}
