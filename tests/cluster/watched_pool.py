"""A pool in the cluster, and everything a test asks about it."""

from typing import Any

from cluster.api import Api, ApiError, Object, eventually
from unit.pool_files import CPU, changed

CHILDREN = (
    ("apps/v1", "Deployment"),
    ("v1", "Service"),
    ("policy/v1", "PodDisruptionBudget"),
    ("resource.k8s.io/v1", "ResourceClaimTemplate"),
    ("v1", "ConfigMap"),
    ("v1", "ServiceAccount"),
)
_OURS = "splitpool.dev/pool=assistant"


class WatchedPool:
    """The pool `assistant` of one namespace."""

    def __init__(self, api: Api, namespace: str) -> None:
        self.api = api
        self.namespace = namespace

    def declare(self, changes: dict[str, Any] | None = None, base: Object = CPU) -> Object:
        """Create it, or make it what it would be had it been created so."""
        place = {"metadata.namespace": self.namespace}
        model = {"spec.model.name": f"smollm2-{self.namespace}"}
        pool = changed(base, place | model | (changes or {}))
        try:
            return self.api.create(pool)
        except ApiError as error:
            if error.code != 409:
                raise
        return self.api.request("PUT", self._path, self._successor(pool))

    def patch(self, change: Object) -> Object:
        """Change some fields."""
        return self.api.patch(self.read(), change)

    def delete(self) -> None:
        """Delete it."""
        self.api.delete(self.read())

    def read(self) -> Object:
        """The pool as it is."""
        return self.api.get("splitpool.dev/v1alpha1", "InferencePool", "assistant", self.namespace)

    def condition(self, kind: str) -> tuple[str, str]:
        """Status and reason of a condition; empty while there is none."""
        found = (self.read().get("status") or {}).get("conditions") or []
        pairs = {each["type"]: (each["status"], each["reason"]) for each in found}
        return pairs.get(kind, ("", ""))

    def message(self, kind: str) -> str:
        """The sentence of a condition."""
        found = self.read()["status"]["conditions"]
        return next(str(each["message"]) for each in found if each["type"] == kind)

    def wait(self, kind: str, status: str, reason: str, seconds: float = 30.0) -> None:
        """Until a condition of the present generation is so. Raises TimeoutError with what is."""
        try:
            eventually(
                lambda: self.shows(kind, status, reason), f"{kind} is {status}/{reason}", seconds
            )
        except TimeoutError as error:
            for pod in self.pods():
                where, phase = pod["spec"].get("nodeName", "no node"), pod["status"]["phase"]
                error.add_note(f"{pod['metadata']['name']} on {where}: {phase}")
            error.add_note(str(self.read().get("status")))
            raise

    def wait_message(self, kind: str, text: str, seconds: float = 30.0) -> None:
        """Until a condition's sentence says this; what the scheduler says of a node that has just
        come is about the node's start first."""
        eventually(lambda: text in self.message(kind), f"{kind} says: {text}", seconds)

    def shows(self, kind: str, status: str, reason: str) -> bool:
        """Whether a condition of the present generation is so."""
        pool = self.read()
        observed = (pool.get("status") or {}).get("observedGeneration")
        current = observed == pool["metadata"]["generation"]
        return bool(current and self.condition(kind) == (status, reason))

    def wait_ready(self) -> None:
        """Until the pool serves its present generation."""
        self.wait("Ready", "True", "Serving")

    def children(self) -> dict[tuple[str, str], Object]:
        """Its children by kind and name."""
        return {
            (kind, each["metadata"]["name"]): {"apiVersion": version, "kind": kind, **each}
            for version, kind in CHILDREN
            for each in self.api.listed(version, kind, self.namespace, labelSelector=_OURS)
        }

    def child(self, kind: str, name: str) -> Object:
        """One child. Raises KeyError."""
        return self.children()[kind, name]

    def pods(self) -> list[Object]:
        """The pods of its workers."""
        return self.api.listed("v1", "Pod", self.namespace, labelSelector=_OURS)

    @property
    def _path(self) -> str:
        resource = self.api.resource("splitpool.dev/v1alpha1", "InferencePool")
        return resource.path(self.namespace, "assistant")

    def _successor(self, pool: Object) -> Object:
        version = self.read()["metadata"]["resourceVersion"]
        return changed(pool, {"metadata.resourceVersion": version})
