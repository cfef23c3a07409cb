"""Installs CustomResourceDefinitions and waits until objects of them can be made."""

from pathlib import Path

from ruamel.yaml import YAML

from cluster.api import Api, Object, eventually

FILE = Path(__file__).parents[2] / "crds" / "inferencepools.yaml"
_PORT = {"type": "object", "properties": {"number": {"type": "integer"}}}
# The kind of the Gateway API Inference Extension that has the name of ours.
NAMESAKE: Object = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {
        "name": "inferencepools.inference.networking.k8s.io",
        "annotations": {"api-approved.kubernetes.io": "unapproved, made for a test"},
    },
    "spec": {
        "group": "inference.networking.k8s.io",
        "scope": "Namespaced",
        "names": {
            "kind": "InferencePool",
            "listKind": "InferencePoolList",
            "plural": "inferencepools",
            "singular": "inferencepool",
            "shortNames": ["infpool"],
        },
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {
                                "type": "object",
                                "properties": {"targetPorts": {"type": "array", "items": _PORT}},
                            }
                        },
                    }
                },
            }
        ],
    },
}


def own() -> Object:
    """The project's CRD, as checked in."""
    crd: Object = YAML(typ="safe", pure=True).load(FILE.read_text())
    return crd


def install(api: Api, crd: Object | None = None) -> None:
    """Install a CRD (the project's own) and wait until it is served. Raises ApiError."""
    crd = crd or own()
    api.apply(crd)
    eventually(lambda: established(api, crd), f"{crd['metadata']['name']} is established")


def established(api: Api, crd: Object) -> bool:
    """Whether the API server serves it."""
    return condition(api.reread(crd), "Established") == "True"


def condition(obj: Object, kind: str) -> str:
    """The status of a condition, or nothing."""
    found = obj.get("status", {}).get("conditions") or []
    return next((str(each["status"]) for each in found if each["type"] == kind), "")
