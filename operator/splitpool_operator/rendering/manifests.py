"""Which objects does a pool consist of in a cluster? One function per kind, plain dicts."""

from collections.abc import Mapping
from typing import Any

from splitpool_operator.declaration.pool import InferencePool
from splitpool_operator.planning.plan import Plan
from splitpool_operator.rendering import names, pod, sharing
from splitpool_operator.rendering.container import PORT, PORT_NAME, environment
from splitpool_operator.rendering.installation import Installation
from splitpool_operator.rendering.roles import Role, roles
from splitpool_operator.rendering.sharing import Fence

Manifest = dict[str, Any]


def children(
    plan: Plan,
    installation: Installation,
    replicas: Mapping[str, int | None] | None = None,
) -> list[Manifest]:
    """Every object of a pool, in an order in which none refers to a later one.

    replicas: of a role, where something else than the declaration decides; None leaves the field
    to whoever else writes it. Raises sharing.Unsupported.
    """
    result: list[Manifest] = []
    for role in roles(plan):
        count = (replicas or {}).get(role.name, role.replicas)
        result += _role(plan.pool, role, installation, count)
    return [_finished(plan.pool, manifest) for manifest in result]


def _role(
    pool: InferencePool, role: Role, installation: Installation, replicas: int | None
) -> list[Manifest]:
    fence = sharing.fence(pool.spec, role.classes)
    account = service_account(pool, role)
    config = config_map(pool, role)
    template = resource_claim_template(pool, role, fence)
    workers = deployment(
        pool,
        role,
        fence,
        installation,
        replicas=replicas,
        config_map=config["metadata"]["name"],
        claim_template=template["metadata"]["name"] if template else None,
    )
    claims = [template] if template else []
    around = [service(pool, role), pod_disruption_budget(pool, role)]
    return [account, config, *claims, *around, workers]


def service_account(pool: InferencePool, role: Role) -> Manifest:
    """An identity without any right and without a token."""
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": _metadata(pool, role),
        "automountServiceAccountToken": False,
    }


def config_map(pool: InferencePool, role: Role) -> Manifest:
    """The environment of the workers, named by its content: a change rolls them out."""
    data = environment(role)
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": _metadata(pool, role, names.hashed(names.child(pool, role.name), data)),
        "immutable": True,
        "data": data,
    }


def resource_claim_template(pool: InferencePool, role: Role, fence: Fence) -> Manifest | None:
    """What each pod claims of a GPU; its spec is immutable, so its content names it."""
    if fence.claim is None:
        return None
    claim = dict(fence.claim)
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": _metadata(pool, role, names.hashed(names.child(pool, role.name), claim)),
        "spec": {"metadata": {"labels": names.labels(pool, role.name)}, "spec": claim},
    }


def service(pool: InferencePool, role: Role) -> Manifest:
    """Headless: routers find each worker by the EndpointSlices and choose themselves."""
    port = {"name": PORT_NAME, "port": PORT, "targetPort": PORT_NAME, "protocol": "TCP"}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": _metadata(pool, role),
        "spec": {
            "type": "ClusterIP",
            "clusterIP": "None",
            "selector": names.selector(pool, role.name),
            "ports": [port],
        },
    }


def pod_disruption_budget(pool: InferencePool, role: Role) -> Manifest:
    """One worker at a time: with a minimum of one, a node of a single worker never drains."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": _metadata(pool, role),
        "spec": {
            "maxUnavailable": 1,
            "selector": {"matchLabels": names.selector(pool, role.name)},
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
        },
    }


def deployment(
    pool: InferencePool,
    role: Role,
    fence: Fence,
    installation: Installation,
    *,
    replicas: int | None,
    config_map: str,
    claim_template: str | None,
) -> Manifest:
    """The workers. A pod beyond the replicas would not fit the quotas, hence maxSurge 0."""
    name = names.child(pool, role.name)
    spec = pod.pod_spec(
        pool.spec,
        role,
        fence,
        installation,
        account=name,
        config_map=config_map,
        claim_template=claim_template,
    )
    counted: Manifest = {} if replicas is None else {"replicas": replicas}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": _metadata(pool, role),
        "spec": counted
        | {
            "selector": {"matchLabels": names.selector(pool, role.name)},
            "strategy": {
                "type": "RollingUpdate",
                "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1},
            },
            "revisionHistoryLimit": 2,
            "progressDeadlineSeconds": 1860,
            "template": pod.template(names.labels(pool, role.name), fence, spec),
        },
    }


def _metadata(pool: InferencePool, role: Role, name: str | None = None) -> Manifest:
    return {
        "name": name or names.child(pool, role.name),
        "namespace": pool.metadata.namespace,
        "labels": names.labels(pool, role.name),
    }


def _finished(pool: InferencePool, manifest: Manifest) -> Manifest:
    """With the hash of its content, and its owner where that is known (a file has no uid)."""
    metadata = manifest["metadata"] | {"annotations": {names.APPLIED: names.digest(manifest)}}
    if pool.metadata.uid:
        metadata["ownerReferences"] = [names.owner(pool)]
    return manifest | {"metadata": metadata}
