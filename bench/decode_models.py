"""What decode_step.py times: the same weights behind eager torch and behind the worker's runner."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F

from splitpool_worker.checkpoint.weights import open_checkpoint, resolve
from splitpool_worker.engine.batch import Batch
from splitpool_worker.engine.runner import DTYPES, TorchRunner
from splitpool_worker.models.config import ModelConfig
from splitpool_worker.models.llama import Llama, load_llama
from splitpool_worker.ops.reference import ReferenceOps

BLOCK_SIZE = 16
MOST_SEQUENCES = 64
MAX_LEN = 2048


@dataclass(frozen=True, slots=True, kw_only=True)
class Models:
    config: ModelConfig
    plain: Llama
    runner: TorchRunner

    def eager(self, size: int, context: int) -> Callable[[], object]:
        """A step of `size` sequences, each with its last token at `context`."""
        step = EagerStep.of(self.plain, self.config, size, context)
        tokens = torch.arange(size) + 1000
        return lambda: step.logits(tokens)

    def ours(self, size: int, context: int) -> Callable[[], object]:
        blocks = -(-context // BLOCK_SIZE)
        tables = [list(range(i * blocks, (i + 1) * blocks)) for i in range(size)]
        batch = Batch(
            tokens=[1000 + i for i in range(size)],
            positions=[context - 1] * size,
            slots=[table[-1] * BLOCK_SIZE + (context - 1) % BLOCK_SIZE for table in tables],
            query_start=list(range(size + 1)),
            context_len=[context] * size,
            block_tables=tables,
            sample_rows=list(range(size)),
        )
        return lambda: self.runner.forward(batch)

    def prefill(self, tokens: int, chunk: int) -> Callable[[], object]:
        cuts = [*range(0, tokens, chunk), tokens]
        batches = [_chunk(start, stop) for start, stop in itertools.pairwise(cuts)]
        return lambda: [self.runner.forward(batch) for batch in batches]


def load(source: str, dtype: str, ops: str, quantization: str = "none") -> Models:
    with open_checkpoint(resolve(source)) as checkpoint:
        plain = load_llama(
            checkpoint,
            ReferenceOps(),
            max_len=MAX_LEN,
            dtype=DTYPES[dtype],
            device=torch.device("cpu"),
        )
        config = checkpoint.config
    runner = load_runner(source, dtype, ops, quantization)
    return Models(config=config, plain=plain, runner=runner)


def load_runner(source: str, dtype: str, ops: str, quantization: str) -> TorchRunner:
    return TorchRunner.load(
        source,
        dtype=dtype,
        quantization=quantization,
        ops=ops,
        block_size=BLOCK_SIZE,
        num_blocks=MOST_SEQUENCES * MAX_LEN // 4 // BLOCK_SIZE,
        max_model_len=MAX_LEN,
    )


def _chunk(start: int, stop: int) -> Batch:
    rows = list(range(start, stop))
    return Batch(
        tokens=[1000 + row for row in rows],
        positions=rows,
        slots=rows,
        query_start=[0, len(rows)],
        context_len=[stop],
        block_tables=[list(range(-(-stop // BLOCK_SIZE)))],
        sample_rows=[len(rows) - 1],
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class EagerStep:
    """`size` sequences of `context` tokens, the last of them computed by each call."""

    model: Llama
    config: ModelConfig
    size: int
    context: int
    keys: list[torch.Tensor]
    values: list[torch.Tensor]

    @staticmethod
    def of(model: Llama, config: ModelConfig, size: int, context: int) -> EagerStep:
        shape = (size, config.num_kv_heads, context, config.head_dim)

        def cache() -> list[torch.Tensor]:
            return [torch.randn(shape).to(model.norm.dtype) for _ in range(config.num_layers)]

        return EagerStep(
            model=model, config=config, size=size, context=context, keys=cache(), values=cache()
        )

    @torch.no_grad()
    def logits(self, tokens: torch.Tensor) -> torch.Tensor:
        model = self.model
        x = F.embedding(tokens, model.embedding.data)
        for layer, k, v in zip(model.layers, self.keys, self.values, strict=True):
            qkv = F.linear(self._norm(x, layer.attention_norm), layer.qkv.data)
            x = x + F.linear(self._attention(qkv, k, v), layer.output.data)
            gate, up = F.linear(self._norm(x, layer.mlp_norm), layer.gate_up.data).chunk(2, -1)
            x = x + F.linear(F.silu(gate) * up, layer.down.data)
        return F.linear(self._norm(x, model.norm), model.head.data).float()

    def _norm(self, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return F.rms_norm(x, (x.shape[-1],), weight, self.model.eps)

    def _attention(self, qkv: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        config, last = self.config, self.context - 1
        heads = qkv.view(self.size, -1, config.head_dim)
        q, new_k, new_v = torch.split(
            heads, [config.num_heads, config.num_kv_heads, config.num_kv_heads], dim=1
        )
        q = self._rope(q).view(self.size, config.num_kv_heads, -1, config.head_dim)
        k[:, :, last] = self._rope(new_k)
        v[:, :, last] = new_v
        return F.scaled_dot_product_attention(q, k, v).reshape(self.size, -1)

    def _rope(self, x: torch.Tensor) -> torch.Tensor:
        rope = self.model.rope
        cos, sin = rope.cos[self.context - 1], rope.sin[self.context - 1]
        first, second = x.chunk(2, dim=-1)
        return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)
