"""Which programs of Kubernetes run the tests' control plane?

Those of KUBEBUILDER_ASSETS and the PATH where all of them are there in the wanted minor, else ones
that are built from Go modules (`go/`), which takes minutes once per machine. To build them without
a test: `PYTHONPATH=tests python -m cluster.binaries`.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

from cluster.go_build import Build, built

MODULE = Path(__file__).parent / "go"
CONTROL_PLANE = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl")
NODE = ("kubelet", "kube-proxy")
PROGRAMS = ("etcd", *CONTROL_PLANE)
_VERSION = "k8s.io/component-base/version"


def programs(out: IO[str] = sys.stderr) -> Mapping[str, Path]:
    """Every program by its name; built now, with progress on `out`, where they are not there yet.

    Raises BuildError.
    """
    installed = _installed(out)
    if installed is not None:
        return installed
    return _own(PROGRAMS, out)


def node_programs(out: IO[str] = sys.stderr) -> Mapping[str, Path]:
    """The same with those of a node; all are taken from the own build. Raises BuildError."""
    return _own((*PROGRAMS, *NODE), out)


def _own(names: Sequence[str], out: IO[str]) -> Mapping[str, Path]:
    folder = built("kubernetes", MODULE, _builds(), out)
    return {name: folder / name for name in names}


def version() -> str:
    """The release of Kubernetes that the module names, as in v1.37.2."""
    (found,) = re.findall(r"^\s*k8s\.io/kubernetes (v\S+)$", _go_mod(), re.MULTILINE)
    return str(found)


def _go_mod() -> str:
    return (MODULE / "go.mod").read_text()


def _builds() -> tuple[Build, ...]:
    major, minor, _ = version().removeprefix("v").split(".")
    # Without a stamp the programs say v0.0.0, which clients and Helm's kubeVersion do not take.
    stamps = {
        f"{_VERSION}.gitVersion": version(),
        f"{_VERSION}.gitMajor": major,
        f"{_VERSION}.gitMinor": minor,
    }
    return (
        Build(package="go.etcd.io/etcd/server/v3", names=("etcd",)),
        Build(package="./kubernetes", names=(*CONTROL_PLANE, *NODE), stamps=stamps),
    )


def _installed(out: IO[str]) -> Mapping[str, Path] | None:
    """The machine's own programs, if they are complete and of the wanted minor."""
    assets = os.environ.get("KUBEBUILDER_ASSETS")
    places = os.pathsep.join(filter(None, (assets, os.environ.get("PATH"))))
    found = {name: shutil.which(name, path=places) for name in PROGRAMS}
    unfit = [name for name, file in found.items() if file is None or not _fits(name, file)]
    if not unfit:
        return {name: Path(file) for name, file in found.items() if file is not None}
    if assets:
        print(
            f"KUBEBUILDER_ASSETS and PATH lack {', '.join(unfit)} of {version()}'s minor: "
            "all programs are taken from the own build",
            file=out,
        )
    return None


def _fits(name: str, file: str) -> bool:
    if name == "etcd":
        return True
    ask = ["version", "--client"] if name == "kubectl" else ["--version"]
    said = subprocess.run([file, *ask], capture_output=True, text=True, check=False).stdout
    return f"{version().rpartition('.')[0]}." in said


if __name__ == "__main__":
    for program, path in programs().items():
        print(f"{program}: {path}")
