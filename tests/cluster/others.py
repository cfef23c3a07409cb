"""How do other projects read their own objects? By their own types and schemas, from Go modules.

The Prometheus operator's types refuse unknown fields (`refused`); KEDA's CustomResourceDefinition
is as released. That of the Gateway API Inference Extension cannot be had as a module: `gateway_crd`
holds the fields of its documentation. `PYTHONPATH=tests python -m cluster.others` builds all.
"""

import re
import subprocess
import sys
from pathlib import Path
from typing import IO, Any

from ruamel.yaml import YAML

from cluster.api import Object
from cluster.go_build import Build, built, source

_HERE = Path(__file__).parent
_KEDA = "github.com/kedacore/keda/v2"
_SCALED_OBJECTS = "config/crd/bases/keda.sh_scaledobjects.yaml"


def reader(out: IO[str] = sys.stderr) -> Path:
    """The program that reads objects of the Prometheus operator. Raises BuildError."""
    return built("others", _HERE / "others", (Build(package=".", names=("read",)),), out) / "read"


def refused(manifest: Object, text: str) -> str:
    """What the Prometheus operator's type of this kind does not understand; empty: nothing."""
    ended = subprocess.run(
        [str(reader()), manifest["kind"]], input=text, capture_output=True, text=True, check=False
    )
    return ended.stderr if ended.returncode else ""


def keda_crd(out: IO[str] = sys.stderr) -> Object:
    """The CustomResourceDefinition ScaledObject. Raises BuildError."""
    go_mod = (_HERE / "keda" / "go.mod").read_text()
    (version,) = re.findall(rf"{re.escape(_KEDA)} (v\S+)", go_mod)
    file = source(_HERE / "keda", f"{_KEDA} {version}", out) / _SCALED_OBJECTS
    found: Object = YAML(typ="safe", pure=True).load(file.read_text())
    return found


def gateway_crd() -> Object:
    """InferencePools of inference.networking.k8s.io/v1, with the fields that gateways read."""
    text, number = {"type": "string"}, {"type": "integer"}
    port = _closed({"number": number}, "number")
    picker = {"group": text, "kind": text, "name": text, "port": port, "failureMode": text}
    spec = {
        "selector": _closed({"matchLabels": {"type": "object", "additionalProperties": text}}),
        "targetPorts": {"type": "array", "maxItems": 8, "items": port},
        "appProtocol": text,
        "endpointPickerRef": _closed(picker, "name"),
    }
    required = ("selector", "targetPorts", "endpointPickerRef")
    return _crd("inference.networking.k8s.io", "InferencePool", _closed(spec, *required))


def monitoring_crd(kind: str) -> Object:
    """A kind of the Prometheus operator, with whatever fields."""
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return _crd("monitoring.coreos.com", kind, anything)


def _closed(properties: dict[str, Any], *required: str) -> dict[str, Any]:
    listed = {"required": [*required]} if required else {}
    return {"type": "object", "properties": properties, **listed}


def _crd(group: str, kind: str, spec: dict[str, Any]) -> Object:
    plural = f"{kind.lower()}s"
    schema = {"type": "object", "properties": {"spec": spec}, "required": ["spec"]}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
    }
    # The API server reserves names below k8s.io for its own project.
    approved = "https://github.com/kubernetes-sigs/gateway-api-inference-extension"
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{plural}.{group}",
            "annotations": {"api-approved.kubernetes.io": approved},
        },
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural, "singular": kind.lower()},
            "versions": [version],
        },
    }


if __name__ == "__main__":
    print(reader(), keda_crd()["metadata"]["name"])
