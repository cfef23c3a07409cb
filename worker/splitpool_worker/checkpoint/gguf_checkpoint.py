"""A Llama model in a GGUF file, under Hugging Face names and in Hugging Face order of rows."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from gguf import ReaderTensor, dequantize

from splitpool_worker.checkpoint.gguf_header import HeaderReader
from splitpool_worker.checkpoint.weights import ModelUnreadable
from splitpool_worker.models import tensors
from splitpool_worker.models.config import ModelConfig, RopeScaling

if TYPE_CHECKING:
    import torch

# What numpy and the reader raise where a file ends too early or holds nonsense.
_BROKEN = (OSError, ValueError, IndexError, KeyError, TypeError, OverflowError, struct.error)

# Rows are dequantised this many elements at a time: what numpy makes of them on the way, some ten
# bytes for each, then stays in the second cache.
CHUNK_ELEMENTS = 1 << 15

_TOP = {
    "token_embd.weight": tensors.EMBEDDING,
    "output_norm.weight": tensors.FINAL_NORM,
    "output.weight": tensors.HEAD,
}
_PARTS = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


@contextmanager
def open_gguf(path: Path) -> Iterator[GgufCheckpoint]:
    """Raises ModelUnreadable for a broken file and for what is no plain Llama model."""
    try:
        reader = HeaderReader(path)
    except _BROKEN as error:
        raise ModelUnreadable(f"{path} is not a complete GGUF file: {error}") from error
    checkpoint = GgufCheckpoint(path, reader)
    del reader
    try:
        yield checkpoint
    finally:
        checkpoint.close()


class GgufCheckpoint:
    """An open GGUF file; it stays mapped until `close`."""

    def __init__(self, path: Path, reader: HeaderReader) -> None:
        self._path = path
        self._tensors = {_hf_name(tensor.name): tensor for tensor in reader.tensors}
        self.config = _config(path, reader, self._tensors)
        self.shapes: Mapping[str, tensors.Shape] = {
            name: tuple(int(size) for size in reversed(tensor.shape))
            for name, tensor in self._tensors.items()
        }

    def read(self, name: str, dtype: torch.dtype) -> torch.Tensor:
        import torch

        tensor = self._tensors[name]
        out = torch.empty(self.shapes[name], dtype=dtype)
        flat = out.view(-1, out.shape[-1])
        data = tensor.data.reshape(flat.shape[0], -1)
        step = max(1, CHUNK_ELEMENTS // flat.shape[1])
        for start in range(0, flat.shape[0], step):
            rows = self._dequantized(tensor, data[start : start + step])
            flat[start : start + step] = torch.from_numpy(rows)
        heads = self._permuted_heads(name)
        return _unpermuted(out, heads) if heads else out

    def close(self) -> None:
        self._tensors.clear()

    def _dequantized(self, tensor: ReaderTensor, data: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
        try:
            rows = dequantize(np.array(data), tensor.tensor_type)
        except NotImplementedError as error:
            raise ModelUnreadable(
                f"{self._path}: tensor {tensor.name} is {tensor.tensor_type.name}, which cannot be "
                "dequantised here; convert the file to Q8_0, Q4_K_M or BF16"
            ) from error
        return np.ascontiguousarray(rows, dtype=np.float32)

    def _permuted_heads(self, name: str) -> int:
        if name.endswith("q_proj.weight"):
            return self.config.num_heads
        return self.config.num_kv_heads if name.endswith("k_proj.weight") else 0


def _unpermuted(weight: torch.Tensor, heads: int) -> torch.Tensor:
    """GGUF stores a head's rows as rotary pairs side by side; ours are first half, second half."""
    pairs = weight.shape[0] // heads // 2
    by_pair = weight.view(heads, pairs, 2, weight.shape[1])
    return by_pair.transpose(1, 2).reshape(weight.shape)


def _hf_name(name: str) -> str:
    if name in _TOP:
        return _TOP[name]
    match = re.fullmatch(r"blk\.(\d+)\.(\w+)\.weight", name)
    if match and match[2] in _PARTS:
        return tensors.layer_tensor(int(match[1]), _PARTS[match[2]])
    return name


def _config(path: Path, reader: HeaderReader, found: Mapping[str, ReaderTensor]) -> ModelConfig:
    fields = _Fields(path, reader)
    architecture = fields.text("general.architecture")
    if architecture != "llama":
        raise ModelUnreadable(
            f"{path}: architecture {architecture!r} is not supported; this worker runs 'llama'"
        )
    hidden = fields.integer("llama.embedding_length")
    heads = fields.integer("llama.attention.head_count")
    if tensors.EMBEDDING not in found:
        raise ModelUnreadable(f"{path}: tensor token_embd.weight is missing")
    return ModelConfig(
        architecture=architecture,
        vocab_size=int(found[tensors.EMBEDDING].shape[1]),
        hidden_size=hidden,
        intermediate_size=fields.integer("llama.feed_forward_length"),
        num_layers=fields.integer("llama.block_count"),
        num_heads=heads,
        num_kv_heads=fields.integer("llama.attention.head_count_kv", heads),
        head_dim=fields.integer("llama.attention.key_length", hidden // max(1, heads)),
        rms_norm_eps=fields.number("llama.attention.layer_norm_rms_epsilon"),
        rope_theta=fields.number("llama.rope.freq_base", 10000.0),
        rope_scaling=_rope_scaling(path, fields),
        rope_divisors=tensors.ROPE_DIVISORS in found,
        max_len=fields.integer("llama.context_length"),
        tied_embeddings=tensors.HEAD not in found,
    )


def _rope_scaling(path: Path, fields: _Fields) -> RopeScaling | None:
    kind = fields.text("llama.rope.scaling.type", "none")
    if kind == "none":
        return None
    if kind != "linear":
        raise ModelUnreadable(f"{path}: rope scaling {kind!r} is not supported, only 'linear'")
    return RopeScaling(kind=kind, factor=fields.number("llama.rope.scaling.factor"))


class _Fields:
    """The header's values by key, with the file and the key in every error."""

    def __init__(self, path: Path, reader: HeaderReader) -> None:
        self._path = path
        self._fields = reader.fields

    def text(self, key: str, default: str | None = None) -> str:
        return str(self._value(key, default))

    def integer(self, key: str, default: int | None = None) -> int:
        value = self._value(key, default)
        if not isinstance(value, int):
            raise ModelUnreadable(f"{self._path}: {key} is {value!r}, not one integer")
        return value

    def number(self, key: str, default: float | None = None) -> float:
        value = self._value(key, default)
        if not isinstance(value, int | float):
            raise ModelUnreadable(f"{self._path}: {key} is {value!r}, not a number")
        return float(value)

    def _value(self, key: str, default: object) -> object:
        if key in self._fields:
            value: object = self._fields[key].contents()
            return value
        if default is None:
            raise ModelUnreadable(f"{self._path}: the header has no {key}")
        return default
