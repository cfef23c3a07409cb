"""The operator as a process of a test: its own user, its own rights, one namespace."""

import contextlib
import os
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from cluster.api import Api, Object
from cluster.control_plane import ControlPlane
from cluster.processes import Program

_CHILD_VERBS = ["get", "list", "watch", "create", "patch", "delete"]
# What the operator may do in a namespace, and nothing more.
RULES: list[dict[str, Any]] = [
    {
        "apiGroups": ["splitpool.dev"],
        "resources": ["inferencepools"],
        "verbs": ["list", "watch"],
    },
    {
        "apiGroups": ["splitpool.dev"],
        "resources": ["inferencepools/status"],
        "verbs": ["patch"],
    },
    {
        "apiGroups": [""],
        "resources": ["services", "configmaps", "serviceaccounts"],
        "verbs": _CHILD_VERBS,
    },
    {"apiGroups": ["apps"], "resources": ["deployments"], "verbs": _CHILD_VERBS},
    {"apiGroups": ["policy"], "resources": ["poddisruptionbudgets"], "verbs": _CHILD_VERBS},
    {
        "apiGroups": ["resource.k8s.io"],
        "resources": ["resourceclaimtemplates"],
        "verbs": _CHILD_VERBS,
    },
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "watch"]},
    {"apiGroups": [""], "resources": ["events"], "verbs": ["create"]},
    {
        "apiGroups": ["coordination.k8s.io"],
        "resources": ["leases"],
        "verbs": ["get", "create", "update"],
    },
]


def permit(admin: Api, namespace: str | None, user: str) -> None:
    """Let a user be the operator of a namespace, or of the whole cluster."""
    kind = "Role" if namespace else "ClusterRole"
    place = {"name": user} | ({"namespace": namespace} if namespace else {})
    api = "rbac.authorization.k8s.io"
    role = {"apiVersion": f"{api}/v1", "kind": kind, "metadata": place, "rules": RULES}
    binding: Object = {
        "apiVersion": f"{api}/v1",
        "kind": f"{kind}Binding",
        "metadata": place,
        "roleRef": {"apiGroup": api, "kind": kind, "name": user},
        "subjects": [{"apiGroup": api, "kind": "User", "name": user}],
    }
    admin.apply(role)
    admin.apply(binding)


def operator(
    plane: ControlPlane, namespace: str | None, user: str, arguments: Sequence[str] = ()
) -> Program:
    """A replica, not started yet."""
    home = namespace or "default"
    command = [
        *("/usr/bin/env", f"KUBECONFIG={plane.kubeconfig(user)}"),
        f"PYTHONPATH={os.pathsep.join(sys.path)}",
        *(sys.executable, "-m", "splitpool_operator", "run"),
        *("--worker-image", "example.com/worker:1"),
        *(("--namespace", namespace) if namespace else ()),
        *("--lease-namespace", home, "--identity", user, "--health-port", "0"),
        *arguments,
    ]
    return Program(command, plane.folder / f"{home}-{user}.log")


@contextlib.contextmanager
def operating(
    plane: ControlPlane, namespace: str | None, user: str, arguments: Sequence[str] = ()
) -> Iterator[Program]:
    """A running replica until the end of the block."""
    permit(plane.admin, namespace, user)
    program = operator(plane, namespace, user, arguments)
    program.start()
    try:
        yield program
    finally:
        program.stop()
