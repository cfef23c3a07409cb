"""A real Kubernetes of one node: pods run in containers, Services and their names work.

    with running() as real:
        real.kubectl("apply", "-f", "pod.yaml")
        real.run_inside(["curl", "http://10.96.0.10/"])  # in the cluster's network
        real.images["worker"]  # "127.0.0.1:5000/splitpool/worker@sha256:..."

Root and Linux are needed, and the programs of `packages`. All of it runs in a `box`, of which
nothing is left afterwards, however the run ends. To play with one: `make cluster`.
"""

import contextlib
import functools
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from cluster import helm
from cluster.api import Api
from cluster.binaries import node_programs as kubernetes_programs
from cluster.control_plane import ADMIN, ControlPlane, Site
from cluster.processes import dying_with_this
from node import configuration, packages
from node.blobs import blobs_folder, trim
from node.box import Box, boxed
from node.go_programs import node_programs
from node.services import Node

_MASTERS = ["system:masters"]


class RealCluster:
    """A running cluster and the ways to reach it."""

    def __init__(self, *, box: Box, plane: ControlPlane, node: Node, out: IO[str]) -> None:
        self.box = box
        self.plane = plane
        self.node = node
        self.registry = configuration.REGISTRY
        self._out = out

    @property
    def admin(self) -> Api:
        """The API as the administrator sees it."""
        return self.plane.admin

    @property
    def address(self) -> str:
        """The node's: NodePorts answer there, on this machine and in pods."""
        return self.box.address

    @property
    def kubeconfig(self) -> Path:
        """The administrator's; it works on this machine and in the box."""
        return self.plane.kubeconfig(ADMIN, groups=_MASTERS)

    @functools.cached_property
    def images(self) -> Mapping[str, str]:
        """References by digest of the project's images; built and pushed when first asked for."""
        from node.images import build_and_push

        return build_and_push(self.registry, self.run_inside, self._out)

    def kubectl(self, *args: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        """Run kubectl as the administrator; its exit status is the caller's to judge."""
        return self.plane.kubectl(*args, stdin=stdin)

    def helm(self, *args: str) -> subprocess.CompletedProcess[str]:
        """Run helm as the administrator; its exit status is the caller's to judge."""
        settings = helm.environment(self.box.folder / "helm")
        settings["KUBECONFIG"] = str(self.kubeconfig)
        command = [str(helm.helm(self._out)), *args]
        return subprocess.run(command, env=settings, capture_output=True, text=True, check=False)

    def inside(self, argv: Sequence[str]) -> list[str]:
        """The command that runs `argv` in the cluster's network, and ends with this process."""
        return [*dying_with_this(), *self.box.network, *argv]

    def run_inside(self, argv: Sequence[str], **options: Any) -> subprocess.CompletedProcess[str]:
        """Run a program in the cluster's network; `options` are those of subprocess.run."""
        options = {"capture_output": True, "text": True, "check": False} | options
        return subprocess.run(self.inside(argv), **options)

    def get(self, url: str) -> str:
        """What an HTTP server answers in the cluster's network. Raises CalledProcessError."""
        return str(self.run_inside(self.asking(url), check=True).stdout)

    def asking(self, url: str) -> list[str]:
        """The command that prints what an HTTP server answers, for `inside`; fails without one."""
        return [str(self.node.programs.pod), "get", url]


def prepare(out: IO[str] = sys.stderr) -> None:
    """Install and build all programs that are not there yet, which takes minutes once.

    Raises PackagesError and BuildError.
    """
    packages.install(out)
    kubernetes_programs(out)
    node_programs(out)
    helm.helm(out)


@contextlib.contextmanager
def running(out: IO[str] = sys.stderr, logs: Path | None = None) -> Iterator[RealCluster]:
    """A cluster of one's own, on a machine that is prepared.

    The logs of its programs are copied into `logs` at the end. Raises BoxError and StartError.
    """
    kubernetes, programs = kubernetes_programs(out), node_programs(out)
    blobs = blobs_folder()
    trim(blobs)
    with boxed(routes=[configuration.SERVICES]) as box, contextlib.ExitStack() as stack:
        if logs is not None:
            stack.callback(_copy_logs, box.folder, logs)
        plane = ControlPlane(kubernetes, box.folder / "plane", _site(box))
        stack.callback(_end, plane)
        node = Node(
            box=box,
            plane=plane,
            kubernetes=kubernetes,
            programs=programs,
            blobs=blobs,
        )
        stack.callback(node.stop)
        node.start()
        yield RealCluster(box=box, plane=plane, node=node, out=out)


def _end(plane: ControlPlane) -> None:
    """At once: nothing of what it stores is wanted any more."""
    plane.admin.close()
    for program in reversed(plane.all_programs):
        program.kill()


def _site(box: Box) -> Site:
    return Site(
        address=box.address,
        other_addresses=(configuration.API_SERVICE,),
        launcher=box.network,
        api_server=(
            # Pods reach it as a Service.
            "--endpoint-reconciler-type=lease",
            # The node's name is in no DNS that the API server asks.
            "--kubelet-preferred-address-types=InternalIP",
        ),
        controllers=(
            "--allocate-node-cidrs=true",
            f"--cluster-cidr={configuration.PODS}",
        ),
    )


def _copy_logs(folder: Path, logs: Path) -> None:
    for log in folder.rglob("*.log"):
        if log.parent.name in (folder.name, "plane"):
            shutil.copy(log, logs)
