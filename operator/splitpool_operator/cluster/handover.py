"""Who decides how many workers a role has, and when is the field given up? Pure."""

from collections.abc import Mapping
from typing import Any

from splitpool_operator.cluster.store import FIELD_OWNER
from splitpool_operator.declaration import defaults
from splitpool_operator.declaration.pool import Spec
from splitpool_operator.planning import plan, quota
from splitpool_operator.rendering.roles import Role


def replicas(
    spec: Spec,
    role: Role,
    live: Mapping[str, Any] | None,
    *,
    wanted: int | None = None,
    last: int | None = None,
) -> int | None:
    """What apply declares; None leaves the field alone.

    Off: as declared. Managed: as declared at first, then what autoscaling wants, or as they are; a
    Deployment that is made again has the last ones. External: as declared at first, then another
    controller's.
    """
    if spec.autoscaling.mode == "Off":
        return role.replicas
    if live is None:
        again = spec.autoscaling.mode == "Managed" and last is not None
        return last if again else role.replicas
    if spec.autoscaling.mode == "External":
        return None
    return int(live["spec"].get("replicas", role.replicas)) if wanted is None else wanted


def remembered(spec: Spec, status: Mapping[str, Any]) -> dict[str, int]:
    """The replicas of each role that the status remembers, within the bounds of autoscaling.

    Empty where one is missing, or where they do not fit the GPUs together.
    """
    past = status.get("pools") or {}
    found = {}
    for classes in plan.kinds(spec):
        count = (past.get(classes[0]) or {}).get("desiredReplicas")
        if count is None:
            return {}
        bounds = defaults.bounds(spec, classes[0])
        found[plan.role(classes)] = min(max(int(count), bounds.low), bounds.high)
    first, *others = found.values()
    try:
        quota.place(spec, first, sum(others))
    except quota.DoesNotFit:
        return {}
    return found


def gives_up_replicas(live: Mapping[str, Any] | None, manifest: Mapping[str, Any]) -> bool:
    """Whether this apply stops declaring the replicas of a Deployment that has some.

    Without a second owner server-side apply would reset them to 1.
    """
    if live is None or manifest["kind"] != "Deployment" or "replicas" in manifest["spec"]:
        return False
    owners = live["metadata"].get("managedFields") or []
    return any(_owns_replicas(each) for each in owners)


def _owns_replicas(entry: Mapping[str, Any]) -> bool:
    spec = (entry.get("fieldsV1") or {}).get("f:spec") or {}
    return entry.get("manager") == FIELD_OWNER and "f:replicas" in spec
