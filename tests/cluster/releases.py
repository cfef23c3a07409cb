"""Helm as an administrator uses it, and the chart's programs as its Deployments start them."""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from cluster.api import Api, Object
from cluster.chart import RELEASE, ChartError
from cluster.control_plane import ADMIN, ControlPlane
from cluster.helm import CHART, environment
from cluster.processes import Program

# By which a chart is told from an older one.
NEW_COLUMN, OLD_COLUMN = "TTFT-P99", "Latency"
_CRD = "inferencepools.splitpool.dev"
_KINDS = (
    ("apps/v1", "Deployment"),
    ("v1", "Service"),
    ("v1", "ServiceAccount"),
    ("v1", "Secret"),
    ("policy/v1", "PodDisruptionBudget"),
    ("networking.k8s.io/v1", "NetworkPolicy"),
    ("rbac.authorization.k8s.io/v1", "Role"),
    ("rbac.authorization.k8s.io/v1", "RoleBinding"),
    ("rbac.authorization.k8s.io/v1", "ClusterRole"),
    ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding"),
)


class Helm:
    """One version of Helm, and the release `splitpool` of one namespace."""

    def __init__(
        self, plane: ControlPlane, program: Path, namespace: str, *, timeout: str = "120s"
    ) -> None:
        self.namespace = namespace
        self.waiting = ("--wait", "--timeout", timeout)
        home = plane.folder / "helm"
        home.mkdir(exist_ok=True)
        config = plane.kubeconfig(ADMIN, groups=["system:masters"])
        self._environment = environment(home) | {"KUBECONFIG": str(config)}
        self._program = program

    def install(self, *arguments: str, chart: Path = CHART) -> str:
        """Install or upgrade the release, and wait until its pods are ready. Raises ChartError."""
        return self("upgrade", "--install", RELEASE, str(chart), *self.waiting, *arguments)

    def __call__(self, *arguments: str) -> str:
        """What a command of Helm's prints. Raises ChartError."""
        command = [str(self._program), *arguments, "--namespace", self.namespace]
        ended = subprocess.run(
            command, env=self._environment, capture_output=True, text=True, check=False
        )
        if ended.returncode:
            raise ChartError(f"helm {arguments[0]}: {ended.stderr}{ended.stdout}")
        return ended.stdout


def program(plane: ControlPlane, deployment: Object, changes: Mapping[str, str | None]) -> Program:
    """What a Deployment's container runs, here, as its service account; not started yet.

    `changes`: other values of some options; None leaves one out.
    """
    pod = deployment["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    user = account(deployment)
    groups = ["system:serviceaccounts", f"system:serviceaccounts:{user.split(':')[2]}"]
    _, *module = container["command"]
    arguments = [each.replace("$(POD_NAME)", "pod-0") for each in container["args"]]
    command = [
        *("/usr/bin/env", f"KUBECONFIG={plane.kubeconfig(user, groups)}"),
        *("HOME=/nonexistent", f"PYTHONPATH={os.pathsep.join(sys.path)}"),
        *(sys.executable, *module, *_changed(arguments, changes)),
    ]
    return Program(command, plane.folder / f"{user.replace(':', '-')}.log")


def account(deployment: Object) -> str:
    """The user that the pods of a Deployment are."""
    namespace = deployment["metadata"]["namespace"]
    name = deployment["spec"]["template"]["spec"]["serviceAccountName"]
    return f"system:serviceaccount:{namespace}:{name}"


def deployment(api: Api, namespace: str, component: str) -> Object:
    """The Deployment of a component."""
    return api.get("apps/v1", "Deployment", f"{RELEASE}-{component}", namespace)


def left(api: Api) -> set[tuple[str, str]]:
    """Kind and name of what the cluster has of the release, but for its pods."""
    return {
        (kind, each["metadata"]["name"])
        for version, kind in _KINDS
        for each in api.listed(version, kind, labelSelector=f"app.kubernetes.io/instance={RELEASE}")
    }


def older_chart(folder: Path) -> Path:
    """The chart in a new folder, with a CustomResourceDefinition that has a column `Latency`."""
    older = shutil.copytree(CHART, folder / RELEASE)
    crd = older / "files" / "inferencepools.yaml"
    crd.write_text(crd.read_text().replace(f"name: {NEW_COLUMN}", f"name: {OLD_COLUMN}"))
    return older


def columns(api: Api) -> set[str]:
    """Which of the two the CustomResourceDefinition in the cluster has."""
    crd = api.get("apiextensions.k8s.io/v1", "CustomResourceDefinition", _CRD)
    found = {each["name"] for each in crd["spec"]["versions"][0]["additionalPrinterColumns"]}
    return found & {NEW_COLUMN, OLD_COLUMN}


def _changed(arguments: Sequence[str], changes: Mapping[str, str | None]) -> list[str]:
    result: list[str] = []
    given = iter(arguments)
    for each in given:
        if each not in changes:
            result.append(each)
            continue
        next(given)
        value = changes[each]
        result += [] if value is None else [each, value]
    return result
