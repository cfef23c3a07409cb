"""A shell in which somebody follows the pages: kubectl, helm, splitpool, and a cluster."""

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from cluster.binaries import programs
from cluster.doc_blocks import Block
from cluster.helm import environment, helm
from cluster.patience import patient
from unit.golden import ROOT

_SECONDS = 120.0
# What pages write where a reader puts in something of his own.
_WORDS = {"POOL": "assistant", "NAMESPACE": "team-a"}


class Shell:
    """It stands in the checkout; everything that it keeps is in a folder."""

    def __init__(self, folder: Path, kubeconfig: Path) -> None:
        here = folder / "bin"
        here.mkdir(parents=True)
        (here / "kubectl").symlink_to(programs()["kubectl"])
        (here / "helm").symlink_to(helm())
        for name in ("splitpool", "kubectl-splitpool"):
            (here / name).symlink_to(Path(sys.executable).with_name(name))
        self._environment = environment(folder) | {
            "KUBECONFIG": str(kubeconfig),
            "PATH": f"{here}:{os.defpath}",
            "PYTHONPATH": os.pathsep.join(sys.path),
        }

    def type(self, block: Block) -> tuple[int, str]:
        """Exit status and output of a block; what it started in the background is ended."""
        text = block.text
        for word, value in _WORDS.items():
            text = text.replace(word, value)
        with tempfile.TemporaryFile("w+") as said:
            with subprocess.Popen(
                ["bash", "-euo", "pipefail", "-c", text],
                cwd=ROOT,
                env=self._environment,
                stdout=said,
                stderr=subprocess.STDOUT,
                text=True,
                start_new_session=True,
            ) as process:
                try:
                    status = process.wait(patient(_SECONDS))
                except subprocess.TimeoutExpired:
                    status = 124
                finally:
                    _end(process.pid)
            said.seek(0)
            return status, said.read()


def _end(group: int) -> None:
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        return
