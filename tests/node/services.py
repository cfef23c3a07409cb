"""Starts the programs of a node in its box, each when what it needs is there."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path

import urllib3

from cluster.api import Api
from cluster.control_plane import ControlPlane
from cluster.processes import Program
from node import configuration, pod_image
from node.box import Box
from node.configuration import NODE, Place
from node.go_programs import NodePrograms

_MASTERS = ["system:masters"]


class Node:
    """The programs of one node; `kubernetes` are those of `cluster.binaries`."""

    def __init__(
        self,
        *,
        box: Box,
        plane: ControlPlane,
        kubernetes: Mapping[str, Path],
        programs: NodePrograms,
        blobs: Path,
    ) -> None:
        self._box = box
        self._plane = plane
        self._kubernetes = kubernetes
        self.programs = programs
        self._place = Place(
            address=box.address, cgroup=box.cgroup, folder=box.seen_inside(box.folder)
        )
        self.registry = Program([*box.network, *self._registry(blobs)], self._log("registry"))
        self.containerd = Program([*box.all, *self._containerd()], self._log("containerd"))
        self.kubelet = Program([*box.all, *self._kubelet()], self._log("kubelet"))
        self.proxy = Program([*box.network, *self._proxy()], self._log("kube-proxy"))
        self.dns = Program([*box.network, *self._dns()], self._log("coredns"))

    @property
    def all_programs(self) -> tuple[Program, ...]:
        """In the order in which they start."""
        return self.registry, self.containerd, self.kubelet, self.proxy, self.dns

    def start(self) -> None:
        """Start everything, the control plane too; wait until pods can run. Raises StartError."""
        self.registry.start()
        self.containerd.start()
        self._plane.start()
        self.proxy.start()
        self.dns.start()
        self.registry.wait(self._answers(self._at(configuration.REGISTRY_PORT, "/v2/")))
        pod_image.push(self.programs, self._box.network, self._box.folder)
        self.containerd.wait(self._box.path_inside(configuration.CONTAINERD_SOCKET).exists)
        self.kubelet.start()
        self.proxy.wait(self._answers(self._at(configuration.PROXY_HEALTH_PORT, "/healthz")))
        self.dns.wait(self._answers(self._at(configuration.DNS_READY_PORT, "/ready")))
        self.kubelet.wait(lambda: _node_is_ready(self._plane.admin))

    def stop(self) -> None:
        """End all programs at once: nothing of the node is wanted any more."""
        for program in reversed(self.all_programs):
            program.kill()

    def _registry(self, blobs: Path) -> list[str]:
        address = f"0.0.0.0:{configuration.REGISTRY_PORT}"
        crane = str(self.programs.crane)
        return [crane, "registry", "serve", f"--address={address}", f"--disk={blobs}"]

    def _containerd(self) -> list[str]:
        programs = self.programs.folder
        network = self._written("cni/pods.conflist", configuration.pod_network())
        text = configuration.containerd(
            self._place,
            plugins=programs,
            networks=str(Path(network).parent),
            pause_image=pod_image.IMAGE,
        )
        # It looks for its shim, for runc and for nft there.
        path = f"PATH={programs}:{os.defpath}:/usr/sbin:/sbin"
        config = self._written("containerd.toml", text)
        return ["env", path, str(self.programs.containerd), f"--config={config}"]

    def _kubelet(self) -> list[str]:
        seen = self._box.seen_inside
        config = configuration.kubelet(
            self._place,
            authority=seen(self._plane.authority.certificate),
            certificate=seen(self._plane.serving.certificate),
            key=seen(self._plane.serving.key),
        )
        user = self._plane.kubeconfig(f"system:node:{NODE}", groups=["system:nodes"])
        return [
            str(self._kubernetes["kubelet"]),
            f"--config={self._written('kubelet.json', config)}",
            f"--kubeconfig={seen(user)}",
            f"--hostname-override={NODE}",
            f"--node-ip={self._box.address}",
            f"--root-dir={self._place.folder}/kubelet",
            f"--cert-dir={self._place.folder}/kubelet/pki",
        ]

    def _proxy(self) -> list[str]:
        user = self._plane.kubeconfig("system:kube-proxy")
        self._written("kube-proxy.json", configuration.proxy(self._place, str(user)))
        return [
            str(self._kubernetes["kube-proxy"]),
            f"--config={self._box.folder / 'kube-proxy.json'}",
        ]

    def _dns(self) -> list[str]:
        user = self._plane.kubeconfig("coredns", groups=_MASTERS)
        self._written("Corefile", configuration.dns(self._place, str(user)))
        return [str(self.programs.coredns), f"-conf={self._box.folder / 'Corefile'}"]

    def _written(self, name: str, text: str) -> str:
        """Write a file of the run's folder; the answer is its name in the box."""
        file = self._box.folder / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
        return self._box.seen_inside(file)

    def _log(self, name: str) -> Path:
        return self._box.folder / f"{name}.log"

    def _at(self, port: int, path: str) -> str:
        return f"http://{self._box.address}:{port}{path}"

    def _answers(self, url: str) -> Callable[[], bool]:
        return lambda: _is_ok(url)


def _node_is_ready(admin: Api) -> bool:
    return any(
        condition["type"] == "Ready" and condition["status"] == "True"
        for node in admin.listed("v1", "Node")
        for condition in node["status"].get("conditions", [])
    )


def _is_ok(url: str) -> bool:
    try:
        return urllib3.request("GET", url, timeout=5.0, retries=False).status == 200
    except urllib3.exceptions.HTTPError:
        return False
