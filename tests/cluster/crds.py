"""Installs CustomResourceDefinitions and waits until objects of them can be made."""

from pathlib import Path

from ruamel.yaml import YAML

from cluster.api import Api, Object, eventually

FILE = Path(__file__).parents[2] / "crds" / "inferencepools.yaml"


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
