"""Small Kubernetes objects for tests: a pod template, a Deployment, a claim for GPU memory."""

from collections.abc import Mapping
from typing import Any

Object = dict[str, Any]


def pod_spec(limits: Mapping[str, str] | None = None) -> Object:
    """A container that asks for what it is told to."""
    resources = {"limits": dict(limits)} if limits else {}
    return {"containers": [{"name": "main", "image": "example.com/main", "resources": resources}]}


def pod(name: str, namespace: str, spec: Object | None = None) -> Object:
    """A pod."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": {"app": name}},
        "spec": spec or pod_spec(),
    }


def deployment(name: str, namespace: str, replicas: int = 1) -> Object:
    """A Deployment whose pods are labelled with its name."""
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": pod_spec()},
        },
    }


def memory_claim_template(name: str, namespace: str, memory: str) -> Object:
    """A template of claims for so much memory of one GPU."""
    wanted = {"deviceClassName": "gpu.nvidia.com", "capacity": {"requests": {"memory": memory}}}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"spec": {"devices": {"requests": [{"name": "gpu", "exactly": wanted}]}}},
    }


def claiming(template: str) -> Object:
    """The spec of a pod that uses a claim made from a template."""
    spec = pod_spec()
    spec["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": template}]
    spec["containers"][0]["resources"] = {"claims": [{"name": "gpu"}]}
    return spec
