"""Rotary position tables: the cosine and sine of every position and frequency."""

import math

import torch

from splitpool_worker.models.config import ModelConfig, RopeScaling


def rope_table(
    config: ModelConfig, positions: int, divisors: torch.Tensor | None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Cosines and sines [positions, head_dim / 2] in float32.

    `divisors` [head_dim / 2] is how GGUF files store the llama3 scaling.
    """
    exponents = torch.arange(0, config.head_dim, 2, dtype=torch.int64).float() / config.head_dim
    frequencies = 1.0 / (config.rope_theta**exponents)
    if divisors is not None:
        frequencies = frequencies / divisors.float()
    if config.rope_scaling is not None:
        frequencies = _scaled(frequencies, config.rope_scaling)
    angles = torch.arange(positions).float()[:, None] * frequencies
    return angles.cos(), angles.sin()


def _scaled(frequencies: torch.Tensor, scaling: RopeScaling) -> torch.Tensor:
    if scaling.kind == "linear":
        return frequencies / scaling.factor
    return _llama3(frequencies, scaling)


def _llama3(frequencies: torch.Tensor, scaling: RopeScaling) -> torch.Tensor:
    """Long waves are stretched, short ones kept, those between blended (Llama 3.1 model card)."""
    turns = scaling.original_max_len * frequencies / (2 * math.pi)
    low, high = scaling.low_freq_factor, scaling.high_freq_factor
    kept = ((turns - low) / (high - low)).clamp(0.0, 1.0)
    return (1 - kept) * frequencies / scaling.factor + kept * frequencies
