"""Why does no node have room for a worker, and what helps? From the scheduler's own sentence."""

import re
from dataclasses import dataclass

from splitpool_operator.declaration.pool import Spec
from splitpool_operator.planning.quota import depends_on_order
from splitpool_operator.reporting import reasons
from splitpool_operator.reporting.view import Finding

_CLAIM_MISSING = re.compile(r'persistentvolumeclaim "([^"]+)" not found', re.IGNORECASE)
# What a sentence says that is about GPUs, in the words of the schedulers that place them.
_GPU = re.compile(r"gpu|nvidia\.com/|amd\.com/|cannot allocate all claims|card", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cause:
    """Words of a scheduler, and what helps against what they say."""

    words: str
    remedy: str


# The first that matches is told; what stands earlier has to be cured first.
_CAUSES = (
    _Cause(
        words=r"device class .* does not exist",
        remedy="install the DRA driver that brings it, or choose another sharing.mode",
    ),
    _Cause(
        words=r"scheduling gate",
        remedy="whatever set the gates on the pod has to remove them",
    ),
    _Cause(
        words=r"persistentvolumeclaim",
        remedy="see kubectl describe pvc: the claim has to be bound to a volume first",
    ),
    _Cause(
        words=r"untolerated taint",
        remedy="add podTemplate.tolerations, or a node without that taint",
    ),
    _Cause(
        words=r"node affinity|node selector",
        remedy="correct podTemplate.nodeSelector, or label a node so",
    ),
    _Cause(
        words=r"insufficient (memory|cpu|ephemeral-storage)|too many pods",
        remedy="add a node, or lower replicas, vram, hostMemory or podTemplate.resources",
    ),
    _Cause(
        words=r"no nodes available",
        remedy="add a node",
    ),
)


def no_room(spec: Spec, role: str, said: str) -> Finding:
    """The finding for a role whose pod was not placed, with the scheduler's sentence."""
    missing = _CLAIM_MISSING.search(said)
    if missing:
        return _no_claim(spec, role, missing[1])
    cause = next((each for each in _CAUSES if re.search(each.words, said, re.IGNORECASE)), None)
    on_gpus = spec.accelerator.type != "cpu"
    if on_gpus and (cause is None or _GPU.search(said)):
        return _no_gpu(spec, f"{role}: {said}", cause)
    remedy = f"; {cause.remedy}" if cause else ""
    return Finding(reason=reasons.UNSCHEDULABLE, message=f"{role}: {said}{remedy}")


def _no_claim(spec: Spec, role: str, claim: str) -> Finding:
    if _claim_of(spec) == claim:
        text = (
            f"{role}: spec.model.source: the claim {claim} of {spec.model.source} does not exist; "
            "create it in the namespace of the pool, or correct the source"
        )
        return Finding(reason=reasons.MODEL_NOT_FOUND, message=text)
    text = f"{role}: the claim {claim} does not exist; create it or correct podTemplate.volumes"
    return Finding(reason=reasons.UNSCHEDULABLE, message=text)


def _claim_of(spec: Spec) -> str | None:
    """The claim that holds the model, where one does."""
    scheme, _, rest = spec.model.source.partition("://")
    return rest.partition("/")[0] if scheme == "pvc" else None


def _no_gpu(spec: Spec, text: str, cause: _Cause | None) -> Finding:
    if cause is not None:
        text += f"; {cause.remedy}"
    elif depends_on_order(spec):
        text += (
            "; the quotas fit the GPUs, but not in every order in which workers come: two of one "
            "class may have taken the room of another. Delete a pod of the other class, or choose "
            "quotas that fit in any order (see splitpool plan)"
        )
    else:
        text += "; free a GPU, add one, or lower replicas or quotas"
    return Finding(reason=reasons.WAITING_FOR_GPU, message=text)
