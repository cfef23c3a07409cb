"""Objects that make the scheduler see hardware: nodes, device classes and slices of DRA devices."""

from collections.abc import Mapping, Sequence
from typing import Any

Object = dict[str, Any]
DEFAULT_CAPACITY = {"cpu": "64", "memory": "512Gi", "ephemeral-storage": "1Ti", "pods": "500"}
NVIDIA_DRIVER = "gpu.nvidia.com"


def node(name: str, labels: Mapping[str, str]) -> Object:
    """A node, still without a status."""
    named = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {**named, "kubernetes.io/arch": "amd64", **labels}},
    }


def node_status(capacity: Mapping[str, str], address: str, now: str) -> Object:
    """The status of a healthy node with the default capacity and more of it, or other kinds."""
    whole = DEFAULT_CAPACITY | dict(capacity)
    pressures = ("MemoryPressure", "DiskPressure", "PIDPressure")
    quiet = [_condition(kind, "False", "KubeletHasSufficient", now) for kind in pressures]
    return {
        "capacity": whole,
        "allocatable": whole,
        "addresses": [{"type": "InternalIP", "address": address}],
        "conditions": [*quiet, _condition("Ready", "True", "KubeletReady", now)],
    }


def lease(name: str, now: str) -> Object:
    """The heartbeat of a node; the time has microseconds."""
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name, "namespace": "kube-node-lease"},
        "spec": {"holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": now},
    }


def device_class(name: str = NVIDIA_DRIVER, driver: str = NVIDIA_DRIVER) -> Object:
    """All devices of a driver."""
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": name},
        "spec": {"selectors": [{"cel": {"expression": f"device.driver == '{driver}'"}}]},
    }


def gpu_device(name: str, memory: str, attributes: Mapping[str, str] | None = None) -> Object:
    """A GPU whose memory is shared out by the scheduler, as NVIDIA's driver publishes it.

    A claim that asks for no memory gets all of it.
    """
    policy = {"default": memory, "validRange": {"min": "1Mi", "step": "1Mi", "max": memory}}
    named = {"type": "gpu", "uuid": f"GPU-{name}"} | dict(attributes or {})
    return {
        "name": name,
        "allowMultipleAllocations": True,
        "attributes": {key: {"string": value} for key, value in named.items()},
        "capacity": {"memory": {"value": memory, "requestPolicy": policy}},
    }


def resource_slice(
    node_name: str, devices: Sequence[Object], driver: str = NVIDIA_DRIVER
) -> Object:
    """All devices of a driver on a node."""
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": f"{node_name}-{driver}"},
        "spec": {
            "driver": driver,
            "nodeName": node_name,
            "pool": {"name": node_name, "generation": 1, "resourceSliceCount": 1},
            "devices": list(devices),
        },
    }


def _condition(kind: str, status: str, reason: str, now: str) -> Object:
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "lastHeartbeatTime": now,
        "lastTransitionTime": now,
    }
