"""How does a model come into a worker's pod: which volume, which download, which path?"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

MOUNT = "/model"
_VOLUME = "model"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFiles:
    """The source as the worker is told it, and what makes that true."""

    source: str
    volume: Mapping[str, Any] | None = None
    # Arguments of the container that fills the volume before the worker starts.
    download: tuple[str, ...] = ()

    @property
    def volumes(self) -> list[dict[str, Any]]:
        """The volumes of the pod."""
        return [] if self.volume is None else [{"name": _VOLUME, **self.volume}]

    def mounts(self, *, read_only: bool) -> list[dict[str, Any]]:
        """The mounts of a container."""
        if self.volume is None:
            return []
        mount: dict[str, Any] = {"name": _VOLUME, "mountPath": MOUNT}
        return [mount | {"readOnly": True} if read_only else mount]


def model_files(source: str) -> ModelFiles:
    """What a source of any scheme needs.

    file:// and python:// name what the image or podTemplate's volumes hold; the worker says so
    where they do not.
    """
    scheme, _, rest = source.partition("://")
    if scheme == "pvc":
        return _claim(rest)
    if scheme == "hf":
        return _fetched(source)
    if scheme == "oci":
        image = {"image": {"reference": rest, "pullPolicy": "IfNotPresent"}}
        return ModelFiles(source=f"file://{MOUNT}", volume=image)
    return ModelFiles(source=source)


def _claim(rest: str) -> ModelFiles:
    name, _, path = rest.partition("/")
    return ModelFiles(
        source=f"file://{MOUNT}/{path}" if path else f"file://{MOUNT}",
        volume={"persistentVolumeClaim": {"claimName": name, "readOnly": True}},
    )


def _fetched(source: str) -> ModelFiles:
    return ModelFiles(
        source=f"file://{MOUNT}",
        volume={"emptyDir": {}},
        download=("python", "-m", "splitpool_worker", "fetch", source, "--to", MOUNT),
    )
