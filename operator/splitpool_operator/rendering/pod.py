"""What is the pod of a worker around its container: volumes, rights, placement, time to end?"""

from typing import Any

from splitpool_operator.declaration.pool import Spec
from splitpool_operator.rendering import container, names
from splitpool_operator.rendering.installation import Installation
from splitpool_operator.rendering.model_source import model_files
from splitpool_operator.rendering.roles import Role
from splitpool_operator.rendering.sharing import CLAIM, Fence

_USER = 10001
# Between the last stream and the kill: the process leaves, sockets close.
_MARGIN_SECONDS = 10


def pod_spec(
    spec: Spec,
    role: Role,
    fence: Fence,
    installation: Installation,
    *,
    account: str,
    config_map: str,
    claim_template: str | None,
) -> dict[str, Any]:
    """The spec of the pods of a role."""
    files = model_files(spec.model.source)
    worker = container.worker(spec, role, fence, files, installation, config_map)
    result: dict[str, Any] = {
        "serviceAccountName": account,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": _rights(),
        "terminationGracePeriodSeconds": grace(spec, role),
        "containers": [worker],
        "volumes": [{"name": "tmp", "emptyDir": {}}, *files.volumes, *_template_volumes(spec)],
    }
    if files.download:
        result["initContainers"] = [container.download(spec, files, installation, config_map)]
    if claim_template is not None:
        result["resourceClaims"] = [{"name": CLAIM, "resourceClaimTemplateName": claim_template}]
    return result | _placement(spec, fence)


def grace(spec: Spec, role: Role) -> int:
    """Seconds from the order to end to the kill: hook, running streams, then replay windows."""
    window = 0 if spec.resume.mode == "Off" else spec.resume.window_seconds
    drain = role.worker.drain_seconds
    return container.PRE_STOP_SECONDS + drain + window + _MARGIN_SECONDS


def template(labels: dict[str, str], fence: Fence, spec: dict[str, Any]) -> dict[str, Any]:
    """The template of a role's pods, with its own hash: a pod tells which one it was made of."""
    labels, annotations = labels | dict(fence.labels), dict(fence.annotations)
    revision = names.digest({"labels": labels, "annotations": annotations, "spec": spec})
    metadata = {"labels": labels, "annotations": annotations | {names.REVISION: revision}}
    return {"metadata": metadata, "spec": spec}


def _rights() -> dict[str, Any]:
    """Restricted Pod Security."""
    return {
        "runAsNonRoot": True,
        "runAsUser": _USER,
        "runAsGroup": _USER,
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def _placement(spec: Spec, fence: Fence) -> dict[str, Any]:
    template = spec.pod_template
    tolerations = [
        each.model_dump(by_alias=True, exclude_none=True, mode="json")
        for each in template.tolerations
    ]
    placement = {
        "schedulerName": fence.scheduler,
        "priorityClassName": template.priority_class_name,
        "nodeSelector": dict(template.node_selector),
        "tolerations": tolerations,
    }
    return {key: value for key, value in placement.items() if value}


def _template_volumes(spec: Spec) -> list[dict[str, Any]]:
    return [
        volume.model_dump(by_alias=True, exclude_none=True, mode="json")
        for volume in spec.pod_template.volumes
    ]
