"""What was seen of a pool's workers, for tests of its status: pods as a kubelet reports them."""

from typing import Any

from splitpool_operator.declaration.pool import InferencePool
from splitpool_operator.planning.plan import plan
from splitpool_operator.rendering import names
from splitpool_operator.rendering.installation import Installation
from splitpool_operator.rendering.manifests import children
from splitpool_operator.reporting.observed import RoleState, role_state
from splitpool_operator.reporting.status import status
from splitpool_operator.reporting.view import View
from unit.pool_files import CPU, pool

NOW, LATER = "2026-11-29T18:00:00Z", "2026-11-29T19:00:00Z"
READY = {"conditions": [{"type": "Ready", "status": "True"}], "podIP": "10.0.0.1"}
STARTING: dict[str, Any] = {"conditions": [{"type": "Ready", "status": "False"}]}
OLD = "an older one"


def ended(code: int, reason: str = "Error", message: str = "", name: str = "worker") -> Any:
    """A pod whose container ended so, and waits to be started again."""
    terminated = {"exitCode": code, "reason": reason, "message": message}
    waiting = {"reason": "CrashLoopBackOff", "message": "back-off"}
    return STARTING | {
        "containerStatuses": [
            {"name": name, "state": {"waiting": waiting}, "lastState": {"terminated": terminated}}
        ]
    }


def waiting(reason: str, message: str = "") -> Any:
    """A pod whose container waits for that reason."""
    state = {"waiting": {"reason": reason, "message": message}}
    return STARTING | {"containerStatuses": [{"name": "worker", "image": "w:1", "state": state}]}


def unplaced(message: str, reason: str = "Unschedulable") -> Any:
    """A pod that the scheduler found no node for."""
    scheduled = {"type": "PodScheduled", "status": "False", "reason": reason, "message": message}
    return {"conditions": [scheduled]}


UNSCHEDULABLE = unplaced("0/3 nodes are available: cannot allocate all claims")


def states(
    of: InferencePool,
    statuses: list[Any],
    *,
    revision: str | None = None,
    seen: int = 1,
    deployment: dict[str, Any] | None = None,
) -> tuple[RoleState, ...]:
    """Both roles with the same pods, of the present revision unless another is given."""
    made = children(plan(of, cores=1), Installation(worker_image="w:1"))
    result = []
    for manifest in made:
        if manifest["kind"] != "Deployment":
            continue
        mine = revision or names.revision(manifest["spec"]["template"])
        pods = [pod(manifest, number, mine, each) for number, each in enumerate(statuses)]
        live = {
            "metadata": {"generation": 1},
            "spec": {"replicas": manifest["spec"]["replicas"]},
            "status": {"observedGeneration": seen, **(deployment or {})},
        }
        result.append(role_state(manifest, live, pods, initial=manifest["spec"]["replicas"]))
    return tuple(result)


def pod(manifest: dict[str, Any], number: int, revision: str, status: Any) -> dict[str, Any]:
    """A pod of a Deployment as the API shows it."""
    labels = manifest["spec"]["template"]["metadata"]["labels"]
    name = f"{manifest['metadata']['name']}-{number}"
    annotations = {names.REVISION: revision}
    return {
        "metadata": {"name": name, "uid": name, "labels": labels, "annotations": annotations},
        "status": status,
    }


def view(of: InferencePool | None = None, statuses: list[Any] | None = None, **more: Any) -> View:
    """A pool whose roles both have these pods."""
    of = of or pool(CPU)
    roles = states(of, [READY] if statuses is None else statuses)
    fields: dict[str, Any] = {"generation": 1, "pool": of, "roles": roles}
    return View(**fields | more)


def conditions(of: View, now: str = NOW) -> dict[str, dict[str, Any]]:
    """The conditions by their type."""
    return {each["type"]: each for each in status(of, now)["conditions"]}


def summary(of: View) -> tuple[str, str, str, str]:
    """Ready and its reason, Reconciling, Stalled."""
    found = conditions(of)
    ready = found["Ready"]
    return (
        ready["status"],
        ready["reason"],
        found["Reconciling"]["status"],
        found["Stalled"]["status"],
    )
