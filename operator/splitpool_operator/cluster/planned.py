"""What is to become of a pool: its objects, or why there are none? Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from pydantic import ValidationError

from splitpool_operator.cluster import handover, kinds
from splitpool_operator.cluster.store import Store
from splitpool_operator.declaration import pool as declaration
from splitpool_operator.declaration import reading
from splitpool_operator.declaration.pool import InferencePool
from splitpool_operator.declaration.problems import field
from splitpool_operator.planning.plan import plan
from splitpool_operator.planning.quota import DoesNotFit
from splitpool_operator.rendering import names
from splitpool_operator.rendering.installation import Installation
from splitpool_operator.rendering.manifests import Manifest, children
from splitpool_operator.rendering.roles import roles
from splitpool_operator.rendering.sharing import Unsupported
from splitpool_operator.reporting import reasons
from splitpool_operator.reporting.view import Finding

_NOTHING: Mapping[str, Any] = MappingProxyType({})


class Rejected(Exception):
    """Nothing is applied; what runs is left as it is."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(finding.message)
        self.finding = finding


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """The objects of a pool, and how many workers each role has where it is made anew."""

    manifests: tuple[Manifest, ...]
    initial: Mapping[str, int]


def read(raw: Mapping[str, Any]) -> InferencePool:
    """The pool of an API object. Raises Rejected."""
    try:
        pool = declaration.from_object(raw)
    except ValidationError as error:
        text = "; ".join(f"{field(each['loc'])}: {each['msg']}" for each in error.errors()[:5])
        raise _rejected(reasons.INVALID_SPEC, text) from None
    problems = [f"{field(each.path)}: {each.text}" for each in reading.rule_problems(pool)]
    if problems:
        raise _rejected(reasons.INVALID_SPEC, "; ".join(problems[:5]))
    return pool


def check_name(raw: Mapping[str, Any], pool: InferencePool, same_model: Iterable[Any]) -> None:
    """Raises Rejected where one of the pools that serve a model of that name is older."""
    model = pool.spec.model.name
    for other in same_model:
        if _age(other) < _age(raw):
            where = f"{other['metadata']['namespace']}/{other['metadata']['name']}"
            raise _rejected(
                reasons.MODEL_NAME_CONFLICT,
                f"spec.model.name: {model} is served by the older pool {where}; give this pool "
                "another model name or delete that one",
            )


def planned(
    pool: InferencePool,
    installation: Installation,
    store: Store,
    *,
    wanted: Mapping[str, int] = _NOTHING,
    status: Mapping[str, Any] = _NOTHING,
) -> Planned:
    """The pool's objects; wanted: replicas by role, as autoscaling has them. Raises Rejected."""
    try:
        made = plan(pool, cores=1)
        kinds_of_worker = roles(made)
        last = handover.remembered(pool.spec, status)
        counts = {
            role.name: handover.replicas(
                pool.spec,
                role,
                store.get(
                    kinds.DEPLOYMENT, (pool.metadata.namespace, names.child(pool, role.name))
                ),
                wanted=wanted.get(role.name),
                last=last.get(role.name),
            )
            for role in kinds_of_worker
        }
        manifests = children(made, installation, counts)
    except DoesNotFit as error:
        raise _rejected(reasons.DOES_NOT_FIT, str(error)) from None
    except Unsupported as error:
        raise _rejected(reasons.SHARING_UNSUPPORTED, str(error)) from None
    initial = {
        role.name: role.replicas if (count := counts[role.name]) is None else count
        for role in kinds_of_worker
    }
    return Planned(manifests=tuple(manifests), initial=initial)


def _age(raw: Mapping[str, Any]) -> tuple[str, str]:
    metadata = raw["metadata"]
    return metadata.get("creationTimestamp", ""), metadata["uid"]


def _rejected(reason: str, message: str) -> Rejected:
    return Rejected(Finding(reason=reason, message=message[:4096], final=True))
