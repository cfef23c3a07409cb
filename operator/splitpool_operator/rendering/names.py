"""How are the children of a pool named and labelled, and by which labels are they found?"""

import hashlib
import json
from typing import Any

from splitpool_operator.declaration.pool import API_VERSION, KIND, InferencePool

MANAGED_BY = "app.kubernetes.io/managed-by"
MANAGER = "splitpool"
SELECTOR = f"{MANAGED_BY}={MANAGER}"
POOL = "splitpool.dev/pool"
CLASS = "splitpool.dev/class"
# Hash of what was applied: where it differs, a field may have to go that is no longer declared.
APPLIED = "splitpool.dev/applied"

# Of a pod: hash of the template that it was made of.
REVISION = "splitpool.dev/revision"


def child(pool: InferencePool, role: str) -> str:
    """Name of a role's Deployment, Service, PodDisruptionBudget and ServiceAccount."""
    return f"{pool.metadata.name}-{role}"


def hashed(name: str, content: Any) -> str:
    """A name that changes with the content, for objects that cannot be changed."""
    return f"{name}-{digest(content)}"


def digest(content: Any) -> str:
    """Eight hex digits of a JSON value, whatever the order of its keys."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def revision(template: dict[str, Any]) -> str:
    """The revision that a pod template carries; none where somebody removed it."""
    return str((template["metadata"].get("annotations") or {}).get(REVISION, ""))


def selector(pool: InferencePool, role: str) -> dict[str, str]:
    """The labels that find a role's pods; they never change, since selectors are immutable."""
    return {POOL: pool.metadata.name, CLASS: role}


def labels(pool: InferencePool, role: str) -> dict[str, str]:
    """The labels of every child."""
    return {
        "app.kubernetes.io/name": "splitpool-worker",
        "app.kubernetes.io/instance": pool.metadata.name,
        MANAGED_BY: MANAGER,
        **selector(pool, role),
    }


def owner(pool: InferencePool) -> dict[str, Any]:
    """The reference that lets the garbage collector delete a child with its pool."""
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "name": pool.metadata.name,
        "uid": pool.metadata.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
