"""The operator as a process of a test: its own user, its own rights, one namespace."""

import contextlib
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from cluster.api import Api
from cluster.chart import rights
from cluster.control_plane import ControlPlane
from cluster.processes import Program


def permit(admin: Api, namespace: str | None, user: str) -> None:
    """Let a user do what the chart lets the operator of a namespace do, or of the whole cluster."""
    for each in rights("operator", namespace, user):
        admin.apply(each)


def operator(
    plane: ControlPlane,
    namespace: str | None,
    user: str,
    arguments: Sequence[str] = (),
    *,
    kubeconfig: Path | None = None,
) -> Program:
    """A replica, not started yet; it speaks to the API server unless a file names another."""
    home = namespace or "default"
    command = [
        *("/usr/bin/env", f"KUBECONFIG={kubeconfig or plane.kubeconfig(user)}"),
        f"PYTHONPATH={os.pathsep.join(sys.path)}",
        *(sys.executable, "-m", "splitpool_operator", "run"),
        *("--worker-image", "example.com/worker:1"),
        *(("--namespace", namespace) if namespace else ()),
        *("--lease-namespace", home, "--identity", user, "--health-port", "0"),
        *arguments,
    ]
    return Program(command, plane.folder / f"{home}-{user}.log")


def leader(admin: Api, namespace: str) -> str | None:
    """Which replica of a namespace's operator acts."""
    leases = admin.listed("coordination.k8s.io/v1", "Lease", namespace)
    return next((each["spec"].get("holderIdentity") for each in leases), None)


@contextlib.contextmanager
def operating(
    plane: ControlPlane,
    namespace: str | None,
    user: str,
    arguments: Sequence[str] = (),
    *,
    kubeconfig: Path | None = None,
) -> Iterator[Program]:
    """A running replica until the end of the block."""
    permit(plane.admin, namespace, user)
    program = operator(plane, namespace, user, arguments, kubeconfig=kubeconfig)
    program.start()
    try:
        yield program
    finally:
        program.stop()
