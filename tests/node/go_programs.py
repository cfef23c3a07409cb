"""Which programs does a node run besides those of Kubernetes, and what are they built from?

containerd with its shim and client, the CNI plugins, CoreDNS, a registry (crane) and the one
program that the pods of the harness' own tests run: Go modules in `go/`, built once per machine. To
build them without a test: `PYTHONPATH=tests python -m node.go_programs`.
"""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from cluster.go_build import Build, built

_MODULES = Path(__file__).parent / "go"
_CONTAINERD = "github.com/containerd/containerd/v2/cmd"
_CNI = "github.com/containernetworking/plugins/plugins"
# They need libraries of the machine, and none of these file systems is used.
_TAGS = ("no_btrfs", "no_devmapper", "no_zfs")


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePrograms:
    """Where they are."""

    folder: Path
    coredns: Path
    pod: Path

    @property
    def containerd(self) -> Path:
        """The container runtime; its shim is beside it."""
        return self.folder / "containerd"

    @property
    def crane(self) -> Path:
        """The registry and its client."""
        return self.folder / "crane"


def node_programs(out: IO[str] = sys.stderr) -> NodePrograms:
    """The programs, built now with progress on `out` unless they are there. Raises BuildError."""
    return NodePrograms(
        folder=built("node", _MODULES / "node", _node_builds(), out),
        coredns=_one("coredns", out),
        pod=_one("pod", out),
    )


def _one(name: str, out: IO[str]) -> Path:
    """The program of a module that has one."""
    return built(name, _MODULES / name, (Build(package=".", names=(name,)),), out) / name


def _node_builds() -> tuple[Build, ...]:
    return (
        *(
            Build(package=f"{_CONTAINERD}/{name}", names=(name,), tags=_TAGS)
            for name in ("containerd", "containerd-shim-runc-v2", "ctr")
        ),
        *(
            Build(package=f"{_CNI}/{kind}/{name}", names=(name,))
            for kind, name in (
                ("main", "bridge"),
                ("main", "loopback"),
                ("ipam", "host-local"),
                ("meta", "portmap"),
            )
        ),
        Build(package="github.com/google/go-containerregistry/cmd/crane", names=("crane",)),
    )


if __name__ == "__main__":
    print(node_programs())
