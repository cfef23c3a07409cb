"""Small Kubernetes objects for tests of the node: a hardened pod of /pod, and a Service for it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cluster.api import Object
from node.pod_image import IMAGE

PORT = 8080
_HARDENED: Object = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "readOnlyRootFilesystem": True,
    "runAsNonRoot": True,
    "runAsUser": 10001,
    "seccompProfile": {"type": "RuntimeDefault"},
}


def pod(name: str, namespace: str, args: Sequence[str], **container: Any) -> Object:
    """A pod that runs /pod once with these arguments."""
    main = {"name": "main", "image": IMAGE, "args": list(args), "securityContext": _HARDENED}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": {"app": name}},
        "spec": {"restartPolicy": "Never", "containers": [main | container]},
    }


def server(name: str, namespace: str) -> Object:
    """A pod that answers HTTP with its name, and is ready when it does."""
    probe = {"httpGet": {"port": PORT}, "periodSeconds": 1}
    return pod(name, namespace, ["serve", f":{PORT}"], readinessProbe=probe)


def service(name: str, namespace: str) -> Object:
    """A Service, with a port of the node too, for the pod of its name."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "type": "NodePort",
            "selector": {"app": name},
            "ports": [{"port": 80, "targetPort": PORT}],
        },
    }


def lasting(listed: Sequence[Object]) -> list[Object]:
    """Pods of a list that were not told to end, each as if it had been read by itself."""
    kind = {"apiVersion": "v1", "kind": "Pod"}
    return [kind | each for each in listed if "deletionTimestamp" not in each["metadata"]]


def phase(pod: Object) -> str:
    """How far a pod is."""
    return str(pod["status"]["phase"])


def is_ready(pod: Object) -> bool:
    """Whether Services send to it."""
    conditions = pod["status"].get("conditions", [])
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def is_refused(pod: Object) -> bool:
    """Whether the scheduler has found no node for it."""
    conditions = pod["status"].get("conditions", [])
    return any(each.get("reason") == "Unschedulable" for each in conditions)


def volume_and_claim(name: str, namespace: str, folder: Path) -> tuple[Object, Object]:
    """A folder of the machine as a volume, and the claim that gets it."""
    modes = ["ReadOnlyMany"]
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "accessModes": modes,
            "capacity": {"storage": "1Gi"},
            "claimRef": {"name": name, "namespace": namespace},
            "hostPath": {"path": str(folder), "type": "Directory"},
            "persistentVolumeReclaimPolicy": "Retain",
        },
    }
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "storageClassName": "",
            "accessModes": modes,
            "volumeName": name,
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }
    return volume, claim
