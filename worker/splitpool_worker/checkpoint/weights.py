"""Where a model's files are, and one way to read them: `resolve` a source URI, `open_checkpoint`.

Nothing here imports torch until a tensor is read, so that `inspect` starts quickly.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol
from urllib.parse import unquote, urlsplit

from splitpool_worker.models import tensors
from splitpool_worker.models.config import ModelConfig

if TYPE_CHECKING:
    import torch


class ModelNotFound(Exception):
    """The source names no file that exists here; the message says what to do."""


class ModelUnreadable(Exception):
    """The files exist, but are broken or hold a model that this worker cannot run."""


class Checkpoint(Protocol):
    """An open model: its header, and its tensors one by one."""

    @property
    def config(self) -> ModelConfig: ...

    @property
    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        """Every tensor of the file by its Hugging Face name."""

    def read(self, name: str, dtype: torch.dtype) -> torch.Tensor:
        """A copy of one tensor that shares no memory with the file."""


def resolve(uri: str) -> Path:
    """The path that `file://` or `python://package/file` names. Raises ModelNotFound."""
    parts = urlsplit(uri)
    if parts.scheme == "file":
        return _existing(Path(unquote(parts.netloc + parts.path)), uri)
    if parts.scheme == "python":
        return _in_package(parts.netloc, unquote(parts.path).lstrip("/"), uri)
    raise ModelNotFound(
        f"model source {uri!r}: a worker reads only file:///DIRECTORY-OR-FILE.gguf and "
        "python://PACKAGE/FILE.gguf; give it the path at which the model is mounted"
    )


def _existing(path: Path, uri: str) -> Path:
    if not path.exists():
        raise ModelNotFound(
            f"model source {uri!r}: {path} does not exist; correct the path or put the model there"
        )
    if not os.access(path, os.R_OK):
        raise ModelNotFound(
            f"model source {uri!r}: {path} cannot be read; give this user read permission"
        )
    return path


def _in_package(package: str, inside: str, uri: str) -> Path:
    module = package.replace("-", "_")
    try:
        spec = importlib.util.find_spec(module) if module.isidentifier() else None
    except (ImportError, ValueError):
        spec = None
    if spec is None or not spec.submodule_search_locations:
        raise ModelNotFound(
            f"model source {uri!r}: Python package {module!r} is not installed here; "
            f"run `pip install {package.replace('_', '-')}`"
        )
    folder = Path(spec.submodule_search_locations[0]).resolve()
    path = (folder / inside).resolve()
    if inside and path.is_relative_to(folder) and path.exists():
        return path
    shipped = ", ".join(sorted(file.name for file in folder.glob("*.gguf"))) or "no .gguf file"
    raise ModelNotFound(
        f"model source {uri!r}: package {module!r} has no file {inside!r}; it ships {shipped}"
    )


@contextmanager
def open_checkpoint(path: Path) -> Iterator[Checkpoint]:
    """A GGUF file or a Hugging Face directory, mapped only inside the `with`.

    Raises ModelUnreadable where the files are broken or hold no plain Llama model.
    """
    with _opened(path) as checkpoint:
        _check(path, checkpoint)
        yield checkpoint


def _opened(path: Path) -> AbstractContextManager[Checkpoint]:
    if path.is_dir():
        from splitpool_worker.checkpoint.safetensors_checkpoint import open_directory

        return open_directory(path)
    if path.suffix == ".gguf":
        from splitpool_worker.checkpoint.gguf_checkpoint import open_gguf

        return open_gguf(path)
    raise ModelUnreadable(
        f"{path}: a model is a .gguf file or a directory with config.json and *.safetensors"
    )


def _check(path: Path, checkpoint: Checkpoint) -> None:
    config = checkpoint.config
    if min(config.num_layers, config.num_kv_heads, config.head_dim) < 1:
        raise ModelUnreadable(f"{path}: the header gives no layers, heads or head size")
    if config.num_heads % config.num_kv_heads or config.head_dim % 2:
        raise ModelUnreadable(
            f"{path}: {config.num_heads} query heads of {config.head_dim} cannot share "
            f"{config.num_kv_heads} key heads"
        )
    wrong = sorted(tensors.mismatches(config, checkpoint.shapes))
    if wrong:
        more = f" (and {len(wrong) - 3} more)" if len(wrong) > 3 else ""
        raise ModelUnreadable(f"{path}: {'; '.join(wrong[:3])}{more}")
