"""How are images built where no container engine runs? By buildah, in a store of the user's cache.

Everything that buildah starts or mounts ends with the command, also where that is killed.
"""

import contextlib
import json
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from cluster import building
from cluster.building import BuildError
from cluster.go_build import cache_folder, locked

# Three builds of the worker's image with other libraries.
_LIMIT_BYTES = 20 * 10**9
_QUICK_SECONDS = 2.0
# Processes and mounts of its own, of which the kernel leaves nothing.
_ALONE = ("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")


class ImageError(Exception):
    """An image could not be built or pushed; the text ends with what was said about it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Buildah:
    """Buildah with its store, which nobody else uses meanwhile."""

    folder: Path

    def command(self, *arguments: str) -> list[str]:
        """What runs buildah with these arguments."""
        store = ("--root", str(self.folder / "store"), "--runroot", str(self.folder / "run"))
        return [*_ALONE, "buildah", *store, "--storage-driver", "overlay", *arguments]

    def has(self, name: str) -> bool:
        """Whether the store has an image of this name."""
        command = self.command("images", "--quiet", name)
        return subprocess.run(command, capture_output=True, check=False).returncode == 0

    def build(self, context: Path, name: str, *arguments: str, out: IO[str]) -> None:
        """Build an image, with progress on `out`. Raises ImageError."""
        settings = ("--layers", "--isolation", "chroot", "--network", "host", "--pull-never")
        command = self.command("bud", *settings, "--tag", name, *arguments, str(context))
        run(command, f"Building {name}", out)


@contextlib.contextmanager
def opened(out: IO[str]) -> Iterator[Buildah]:
    """The store, alone with it; emptied first where it has become too large."""
    folder = cache_folder() / "images"
    folder.mkdir(parents=True, exist_ok=True)
    with locked(cache_folder() / "images.lock", out):
        # Says what is mounted: nothing is, whoever was killed.
        shutil.rmtree(folder / "run", ignore_errors=True)
        if _size(folder / "store") > _LIMIT_BYTES:
            shutil.rmtree(folder / "store")
        buildah = Buildah(folder=folder)
        # Containers of builds that were killed.
        subprocess.run(buildah.command("rm", "--all"), capture_output=True, check=False)
        yield buildah


def _size(store: Path) -> int:
    """Bytes of all layers."""
    file = store / "overlay-layers" / "layers.json"
    layers = json.loads(file.read_text()) if file.exists() else []
    return sum(layer.get("diff-size", 0) for layer in layers)


def run(command: Sequence[str], title: str, out: IO[str]) -> None:
    """Run it to its end and say how long its steps take. Raises ImageError."""
    try:
        building.run(command, title, out, progress=_Steps())
    except BuildError as error:
        raise ImageError(str(error)) from None


class _Steps:
    """Of a Dockerfile; those that took a while are told when the next one begins."""

    def __init__(self) -> None:
        self._step, self._begun = "", 0.0

    def __call__(self, line: str, elapsed: float) -> str | None:
        if " STEP " not in line:
            return None
        done = f"done with {self._step}" if elapsed - self._begun > _QUICK_SECONDS else None
        self._step, self._begun = _short(line), elapsed
        return done


def _short(step: str) -> str:
    """A step of a Dockerfile without its mounts, in one line of a terminal."""
    words = step.partition(": ")[2].split()
    return " ".join(word for word in words if not word.startswith("--mount="))[:80]
