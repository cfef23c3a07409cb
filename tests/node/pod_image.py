"""The image that holds a pod's sandbox, and that pods of the harness' own tests run.

It has one file, the static program /pod (`go/pod`).
"""

import platform
import subprocess
import tarfile
from collections.abc import Sequence
from pathlib import Path

from node.configuration import REGISTRY
from node.go_programs import NodePrograms

IMAGE = f"{REGISTRY}/splitpool/tests-pod:latest"
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


class PushError(Exception):
    """The image is not in the registry; the text is what was said about it."""


def push(programs: NodePrograms, network: Sequence[str], folder: Path) -> None:
    """Put it into the registry that is reached in a network namespace. Raises PushError."""
    layer = folder / "pod.tar"
    with tarfile.open(layer, "w") as archive:
        archive.add(programs.pod, "pod")
    crane = [*network, str(programs.crane)]
    _said([*crane, "append", f"--new_layer={layer}", f"--new_tag={IMAGE}"])
    settings = ["--entrypoint=/pod", *platform_settings()]
    _said([*crane, "mutate", IMAGE, *settings, f"--tag={IMAGE}"])


def platform_settings() -> list[str]:
    """What crane is told so that an image is one for this machine."""
    return [f"--set-platform=linux/{_ARCHITECTURES[platform.machine()]}"]


def _said(command: Sequence[str]) -> None:
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if ended.returncode:
        raise PushError(f"{' '.join(command)}: {ended.stderr}")
