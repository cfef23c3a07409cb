"""Who decides how many workers a role has, and when is the field given up? Pure."""

from collections.abc import Mapping
from typing import Any

from splitpool_operator.cluster.store import FIELD_OWNER
from splitpool_operator.declaration.pool import Spec
from splitpool_operator.rendering.roles import Role


def replicas(
    spec: Spec, role: Role, live: Mapping[str, Any] | None, wanted: int | None = None
) -> int | None:
    """What apply declares; None leaves the field alone.

    Off: as declared. Managed: as declared at first, then what autoscaling wants, or as they are.
    External: as declared at first, then another controller's.
    """
    if live is None or spec.autoscaling.mode == "Off":
        return role.replicas
    if spec.autoscaling.mode == "External":
        return None
    return int(live["spec"].get("replicas", role.replicas)) if wanted is None else wanted


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
