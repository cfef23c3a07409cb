"""Pool files for tests: two healthy declarations, and changes to them by path."""

import copy
import json
from typing import Any

from splitpool_operator.declaration import reading
from splitpool_operator.declaration.pool import InferencePool
from splitpool_operator.declaration.problems import PoolFileError, Problem, field

DELETE = object()

GPU: dict[str, Any] = {
    "apiVersion": "splitpool.dev/v1alpha1",
    "kind": "InferencePool",
    "metadata": {"name": "assistant"},
    "spec": {
        "model": {"name": "smollm2", "source": "pvc://models/smollm2"},
        "accelerator": {"type": "nvidia", "memory": "80Gi", "headroom": "4Gi", "count": 2},
        "sharing": {"mode": "DRA"},
        "pools": {
            "interactive": {"vram": "32Gi", "replicas": 2},
            "batch": {"vram": "40Gi", "replicas": 2},
        },
    },
}
CPU: dict[str, Any] = {
    "apiVersion": "splitpool.dev/v1alpha1",
    "kind": "InferencePool",
    "metadata": {"name": "assistant"},
    "spec": {
        "model": {"name": "smollm2", "source": "file:///models/smollm2.gguf"},
        "accelerator": {"type": "cpu", "memory": "4Gi"},
        "pools": {"interactive": {"vram": "1Gi"}, "batch": {"vram": "2Gi"}},
    },
}
MIG = {
    "spec.sharing.mode": "MIG",
    "spec.pools.interactive.migProfile": "3g.40gb",
    "spec.pools.batch.migProfile": "4g.40gb",
}


def changed(base: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """The declaration with values set, or deleted, at dotted paths."""
    result = copy.deepcopy(base)
    for path, value in changes.items():
        *parents, last = path.split(".")
        node = result
        for part in parents:
            node = node.setdefault(part, {})
        if value is DELETE:
            del node[last]
        else:
            node[last] = value
    return result


def read(*documents: dict[str, Any]) -> list[InferencePool]:
    """Read declarations as one file (JSON is YAML)."""
    content = "\n---\n".join(json.dumps(document, indent=1) for document in documents)
    return reading.read("pool.yaml", content.encode())


def pool(base: dict[str, Any], changes: dict[str, Any] | None = None) -> InferencePool:
    """One healthy pool."""
    (only,) = read(changed(base, changes or {}))
    return only


def problems(*documents: dict[str, Any]) -> list[Problem]:
    """What is wrong with the declarations; nothing where they are read."""
    try:
        read(*documents)
    except PoolFileError as error:
        return list(error.problems)
    return []


def fields(found: list[Problem]) -> list[str]:
    """The fields that problems are about."""
    return [field(problem.path) for problem in found]
