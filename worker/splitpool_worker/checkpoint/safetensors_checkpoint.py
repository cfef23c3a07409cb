"""A Llama model in a Hugging Face directory: config.json and one or more safetensors files."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from safetensors import SafetensorError, safe_open

from splitpool_worker.checkpoint.weights import ModelUnreadable
from splitpool_worker.models import tensors
from splitpool_worker.models.config import ModelConfig, RopeScaling

if TYPE_CHECKING:
    import torch


@contextmanager
def open_directory(folder: Path) -> Iterator[SafetensorsCheckpoint]:
    """Raises ModelUnreadable for broken files and for what is no plain Llama model."""
    config = _config(folder)
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        raise ModelUnreadable(f"{folder} has no *.safetensors file beside config.json")
    yield SafetensorsCheckpoint(config, _where(files))


class SafetensorsCheckpoint:
    """The tensors of all files of a directory; a file is mapped only while it is read."""

    def __init__(self, config: ModelConfig, where: Mapping[str, tuple[Path, tensors.Shape]]):
        self.config = config
        self._where = where
        self.shapes: Mapping[str, tensors.Shape] = {
            name: shape for name, (_, shape) in where.items()
        }

    def read(self, name: str, dtype: torch.dtype) -> torch.Tensor:
        path, _ = self._where[name]
        with _opened(path, "pt") as file:
            return file.get_tensor(name).to(dtype, copy=True)  # type: ignore[no-any-return]


def _check_readable(path: Path) -> None:
    """The library says of a file that may not be read that it is not there."""
    if not path.exists():
        raise ModelUnreadable(f"{path} points to a file that is not there; copy the files too")
    if not os.access(path, os.R_OK):
        raise ModelUnreadable(f"{path} cannot be read; give this user read permission")


def _where(files: list[Path]) -> dict[str, tuple[Path, tensors.Shape]]:
    where = {}
    for path in files:
        _check_readable(path)
        with _opened(path, "np") as file:
            for name in file.keys():  # noqa: SIM118 - it is no dict
                where[name] = (path, tuple(file.get_slice(name).get_shape()))
    return where


@contextmanager
def _opened(path: Path, framework: str) -> Iterator[Any]:
    try:
        with ExitStack() as stack:
            yield stack.enter_context(safe_open(path, framework=framework))
    except (SafetensorError, OSError) as error:
        raise ModelUnreadable(f"{path} is not a complete safetensors file: {error}") from error


def _config(folder: Path) -> ModelConfig:
    path = folder / "config.json"
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ModelUnreadable(f"{folder} has no config.json; it is no model directory") from error
    except (OSError, ValueError) as error:
        raise ModelUnreadable(f"{path} cannot be read: {error}") from error
    if not isinstance(raw, dict):
        raise ModelUnreadable(f"{path} is not a JSON object")
    _refuse_unsupported(path, raw)
    try:
        return _from_json(raw)
    except (KeyError, TypeError, ValueError) as error:
        raise ModelUnreadable(f"{path}: field missing or not a number: {error}") from error


def _refuse_unsupported(path: Path, raw: dict[str, Any]) -> None:
    if raw.get("model_type") != "llama":
        raise ModelUnreadable(
            f"{path}: model_type {raw.get('model_type')!r} is not supported; "
            "this worker runs 'llama'"
        )
    if raw.get("hidden_act", "silu") != "silu":
        raise ModelUnreadable(f"{path}: hidden_act {raw['hidden_act']!r} is not 'silu'")
    for field in ("attention_bias", "mlp_bias", "quantization_config"):
        if raw.get(field):
            raise ModelUnreadable(f"{path}: {field} is set; such models are not supported")
    kind = _rope(raw).get("rope_type", "default")
    if kind not in ("default", "linear", "llama3"):
        raise ModelUnreadable(
            f"{path}: rope scaling {kind!r} is not supported, only default, linear and llama3"
        )


def _rope(raw: dict[str, Any]) -> dict[str, Any]:
    """The rotary parameters, which older files spread over `rope_theta` and `rope_scaling`."""
    rope = dict(raw.get("rope_parameters") or raw.get("rope_scaling") or {})
    rope.setdefault("rope_type", rope.get("type", "default"))
    rope.setdefault("rope_theta", raw.get("rope_theta", 10000.0))
    return rope


def _from_json(raw: dict[str, Any]) -> ModelConfig:
    heads = int(raw["num_attention_heads"])
    hidden = int(raw["hidden_size"])
    return ModelConfig(
        architecture="llama",
        vocab_size=int(raw["vocab_size"]),
        hidden_size=hidden,
        intermediate_size=int(raw["intermediate_size"]),
        num_layers=int(raw["num_hidden_layers"]),
        num_heads=heads,
        num_kv_heads=int(raw.get("num_key_value_heads") or heads),
        head_dim=int(raw.get("head_dim") or hidden // heads),
        rms_norm_eps=float(raw.get("rms_norm_eps", 1e-6)),
        rope_theta=float(_rope(raw)["rope_theta"]),
        rope_scaling=_rope_scaling(_rope(raw)),
        max_len=int(raw.get("max_position_embeddings", 2048)),
        tied_embeddings=bool(raw.get("tie_word_embeddings", False)),
    )


def _rope_scaling(rope: dict[str, Any]) -> RopeScaling | None:
    if rope["rope_type"] == "default":
        return None
    if rope["rope_type"] == "linear":
        return RopeScaling(kind="linear", factor=float(rope["factor"]))
    return RopeScaling(
        kind="llama3",
        factor=float(rope["factor"]),
        low_freq_factor=float(rope["low_freq_factor"]),
        high_freq_factor=float(rope["high_freq_factor"]),
        original_max_len=int(rope["original_max_position_embeddings"]),
    )
