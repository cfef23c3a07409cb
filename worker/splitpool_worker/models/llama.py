"""The Llama architecture, written once against the operations."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from splitpool_worker.checkpoint import footprint
from splitpool_worker.checkpoint.weights import Checkpoint
from splitpool_worker.engine.indices import Indices
from splitpool_worker.engine.kv_cache import KVCache
from splitpool_worker.models.rope import rope_table
from splitpool_worker.models.tensors import (
    EMBEDDING,
    FINAL_NORM,
    HEAD,
    ROPE_DIVISORS,
    layer_tensor,
)
from splitpool_worker.ops.interface import Ops, Rope, Weight


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    attention_norm: torch.Tensor
    qkv: Weight
    output: Weight
    mlp_norm: torch.Tensor
    gate_up: Weight
    down: Weight


@dataclass(frozen=True, slots=True, kw_only=True)
class Llama:
    """The weights, as the operations want them, and the forward pass."""

    ops: Ops
    eps: float
    rope: Rope
    embedding: Weight
    layers: list[Layer]
    norm: torch.Tensor
    head: Weight

    @property
    def nbytes(self) -> int:
        """What the weights and rotary tables take; a head that is the embedding counts once."""
        held: list[torch.Tensor | Weight] = [
            self.rope.cos,
            self.rope.sin,
            self.norm,
            self.embedding,
        ]
        if self.head is not self.embedding:
            held.append(self.head)
        for layer in self.layers:
            held += [layer.attention_norm, layer.qkv, layer.output]
            held += [layer.mlp_norm, layer.gate_up, layer.down]
        return sum(one.nbytes for one in held)

    def hidden(self, at: Indices, kv: KVCache) -> torch.Tensor:
        """What the layers make of the sampled rows [R, ...]; stores K and V of all.

        Of the last layer the other rows leave K and V only.
        """
        ops = self.ops
        residual = ops.embed(self.embedding, at.tokens)
        hidden = ops.rms_norm(residual, self.layers[0].attention_norm, self.eps)
        following = [layer.attention_norm for layer in self.layers[1:]] + [self.norm]
        for layer, cache, next_norm in zip(self.layers, kv.layers, following, strict=True):
            qkv = ops.linear(hidden, layer.qkv)
            ops.rope_and_store(qkv, self.rope, at, cache)
            attended = ops.paged_attention(qkv, at, cache)
            if next_norm is self.norm:
                attended = ops.select(attended, at.sample_rows)
                residual = ops.select(residual, at.sample_rows)
            attended = ops.linear(attended, layer.output)
            hidden = ops.add_rms_norm(residual, attended, layer.mlp_norm, self.eps)
            activated = ops.gated(hidden, layer.gate_up)
            hidden = ops.add_rms_norm(
                residual, ops.linear(activated, layer.down), next_norm, self.eps
            )
        return hidden

    def forward(self, at: Indices, kv: KVCache) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Logits [R, vocabulary] of the sampled rows in float32, rounded like every activation to
        the model's dtype, and value and index [R, 1] of the largest of each."""
        logits = self.ops.logits(self.hidden(at, kv), self.head)
        return logits, *self.ops.best(logits)


def load_llama(
    checkpoint: Checkpoint, ops: Ops, *, max_len: int, dtype: torch.dtype, device: torch.device
) -> Llama:
    """Reads tensor by tensor; a tensor's own copy is freed as soon as it is packed."""
    config = checkpoint.config

    def read(name: str) -> torch.Tensor:
        return checkpoint.read(name, dtype).to(device)

    def pack(*names: str) -> Weight:
        parts = [read(name) for name in names]
        return ops.pack(parts[0] if len(parts) == 1 else torch.cat(parts))

    ops.reserve(footprint.matrix_bytes(config, dtype.itemsize, ops.quantization))
    embedding = pack(EMBEDDING)
    return Llama(
        ops=ops,
        eps=config.rms_norm_eps,
        rope=_rope(checkpoint, max_len, dtype, device),
        embedding=embedding,
        head=embedding if config.tied_embeddings else pack(HEAD),
        layers=[
            Layer(
                attention_norm=read(layer_tensor(index, "input_layernorm")),
                qkv=pack(*(layer_tensor(index, f"self_attn.{part}_proj") for part in "qkv")),
                output=pack(layer_tensor(index, "self_attn.o_proj")),
                mlp_norm=read(layer_tensor(index, "post_attention_layernorm")),
                gate_up=ops.pack_gate_up(
                    read(layer_tensor(index, "mlp.gate_proj")),
                    read(layer_tensor(index, "mlp.up_proj")),
                ),
                down=pack(layer_tensor(index, "mlp.down_proj")),
            )
            for index in range(config.num_layers)
        ],
        norm=read(FINAL_NORM),
    )


def _rope(checkpoint: Checkpoint, max_len: int, dtype: torch.dtype, device: torch.device) -> Rope:
    divisors = None
    if checkpoint.config.rope_divisors:
        divisors = checkpoint.read(ROPE_DIVISORS, torch.float32)
    cos, sin = rope_table(checkpoint.config, max_len, divisors)
    return Rope(cos=cos.to(device, dtype), sin=sin.to(device, dtype))
