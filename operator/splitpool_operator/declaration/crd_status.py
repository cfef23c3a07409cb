"""What may the status of an InferencePool say, and what does `kubectl get` show of it?"""

from typing import Any

COLUMNS: list[dict[str, Any]] = [
    {"name": "Model", "type": "string", "jsonPath": ".spec.model.name"},
    {"name": "Interactive", "type": "string", "jsonPath": ".status.pools.interactive.summary"},
    {"name": "Batch", "type": "string", "jsonPath": ".status.pools.batch.summary"},
    {"name": "TTFT-P99", "type": "string", "jsonPath": ".status.pools.interactive.ttftP99"},
    {"name": "Enforcement", "type": "string", "jsonPath": ".status.enforcement"},
    {
        "name": "Ready",
        "type": "string",
        "jsonPath": '.status.conditions[?(@.type=="Ready")].status',
    },
    {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
]

_ENFORCEMENT = ["Hardware", "Driver", "MPS", "Cgroup", "Interposer", "Cooperative"]


def _text(length: int, description: str = "") -> dict[str, Any]:
    text: dict[str, Any] = {"type": "string", "maxLength": length}
    return text | {"description": description} if description else text


def _count(description: str) -> dict[str, Any]:
    return {"type": "integer", "minimum": 0, "description": description}


def _time(description: str) -> dict[str, Any]:
    return {"type": "string", "format": "date-time", "description": description}


_CONDITION: dict[str, Any] = {
    "type": "object",
    "required": ["type", "status", "reason", "message", "lastTransitionTime"],
    "properties": {
        "type": _text(316, "Ready, Reconciling, Stalled, QuotaEnforced and the like."),
        "status": {"type": "string", "enum": ["True", "False", "Unknown"]},
        "observedGeneration": {"type": "integer", "format": "int64", "minimum": 0},
        "lastTransitionTime": _time("When the status last changed."),
        "reason": _text(1024, "One constant word."),
        "message": _text(32768, "A sentence for people."),
    },
}
_VRAM: dict[str, Any] = {
    "type": "object",
    "description": "Of one worker, rounded; as the worker reports it.",
    "properties": {
        "quota": _text(20),
        "weights": _text(20),
        "kv": _text(20),
        "used": _text(20),
    },
}
_CLASS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "summary": _text(32, "Ready and desired workers, as in 2/2."),
        "desiredReplicas": _count("Workers that should run."),
        "readyReplicas": _count("Workers that are ready."),
        "updatedReplicas": _count("Workers of this generation."),
        "enforcement": {
            "type": "string",
            "enum": _ENFORCEMENT,
            "description": "The strongest fence that the class's workers have seen working.",
        },
        "vram": _VRAM,
        "ttftP99Ms": _count("Time to first token, p99, rounded."),
        "ttftP99": _text(16, "The same for people, as in 240ms."),
        "ttftWindowSeconds": _count("The window it was measured over."),
        "lastScaleTime": _time("When autoscaling last moved the replicas."),
        "lastScaleReason": _text(1024, "Why it did."),
        "outgrown": {
            "type": "object",
            "description": "The load that was too much for so many workers.",
            "properties": {
                "replicas": _count("Workers that were too few."),
                "requestsPerSecond": _text(16, "At so many streamed requests a second."),
            },
        },
    },
}

STATUS: dict[str, Any] = {
    "type": "object",
    "description": "What was observed; nothing here is a promise.",
    "properties": {
        "observedGeneration": {"type": "integer", "format": "int64", "minimum": 0},
        "enforcement": {
            "type": "string",
            "enum": _ENFORCEMENT,
            "description": "The weakest fence of the pool's workers.",
        },
        "pools": {
            "type": "object",
            "properties": {"interactive": _CLASS, "batch": _CLASS},
        },
        "conditions": {
            "type": "array",
            "maxItems": 16,
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["type"],
            "items": _CONDITION,
        },
    },
}
