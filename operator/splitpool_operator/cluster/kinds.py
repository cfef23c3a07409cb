"""Which kinds does the operator read and write, and at which address of the API does each live?"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from splitpool_operator.declaration.crd import GROUP, PLURAL, VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One namespaced kind."""

    group: str
    version: str
    plural: str
    name: str

    @property
    def api_version(self) -> str:
        """As objects name it."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str | None, name: str | None = None) -> str:
        """Of an object, of a namespace's objects, or of all."""
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        within = f"/namespaces/{namespace}" if namespace else ""
        return f"{root}{within}/{self.plural}" + (f"/{name}" if name else "")

    def typed(self, listed: Mapping[str, Any]) -> dict[str, Any]:
        """An object of a listing, whose items carry neither apiVersion nor kind."""
        return {"apiVersion": self.api_version, "kind": self.name, **listed}


POOL = Kind(group=GROUP, version=VERSION, plural=PLURAL, name="InferencePool")
DEPLOYMENT = Kind(group="apps", version="v1", plural="deployments", name="Deployment")
POD = Kind(group="", version="v1", plural="pods", name="Pod")
CONFIG_MAP = Kind(group="", version="v1", plural="configmaps", name="ConfigMap")
CLAIM_TEMPLATE = Kind(
    group="resource.k8s.io",
    version="v1",
    plural="resourceclaimtemplates",
    name="ResourceClaimTemplate",
)
EVENT = Kind(group="", version="v1", plural="events", name="Event")
# What a pool owns and this operator prunes; pods belong to the Deployments.
CHILDREN = (
    DEPLOYMENT,
    Kind(group="", version="v1", plural="services", name="Service"),
    Kind(
        group="policy",
        version="v1",
        plural="poddisruptionbudgets",
        name="PodDisruptionBudget",
    ),
    CLAIM_TEMPLATE,
    CONFIG_MAP,
    Kind(group="", version="v1", plural="serviceaccounts", name="ServiceAccount"),
)
WATCHED = (POOL, *CHILDREN, POD)
# Named by their content: the pods of an older revision need theirs until they are gone.
NAMED_BY_CONTENT = (CONFIG_MAP, CLAIM_TEMPLATE)
_BY_NAME = {kind.name: kind for kind in WATCHED}


def of(manifest: dict[str, Any]) -> Kind:
    """The kind of an object."""
    return _BY_NAME[manifest["kind"]]
