"""What int8_step.py times of linears alone: ours and onednn's, on the shapes of SmolLM2-135M."""

from __future__ import annotations

from collections.abc import Callable

import torch

from splitpool_worker.ops.cpu_int8 import CpuInt8Ops

# Rows and columns of what a step multiplies: the matrices of a layer, then the head.
SHAPES = ((960, 576), (576, 576), (3072, 576), (576, 1536), (49152, 576))


def linears(tokens: int) -> tuple[Callable[[], object], Callable[[], object] | None]:
    """Ours, and onednn's where this torch has it."""
    ops = CpuInt8Ops(torch.get_num_threads(), torch.bfloat16)
    weights = [torch.randn(shape).bfloat16() for shape in SHAPES]
    packed = [ops.pack(weight) for weight in weights]
    ones = {columns: torch.ones(columns).bfloat16() for _, columns in SHAPES}
    inputs = {columns: torch.randn(tokens, columns).bfloat16() for _, columns in SHAPES}
    rows = {k: ops.rms_norm(x, ones[k], 1e-5) for k, x in inputs.items()}

    def ours() -> None:
        for weight in packed:
            ops.linear(rows[weight.columns], weight)

    try:
        return ours, _onednn(weights, tokens)
    except (AttributeError, RuntimeError):
        return ours, None


def _onednn(weights: list[torch.Tensor], tokens: int) -> Callable[[], object]:
    quantized = [
        (weight.float() * 30).round().clamp(-127, 127).to(torch.int8) for weight in weights
    ]
    packed = [
        torch.ops.onednn.qlinear_prepack(weight, [tokens, weight.shape[1]]) for weight in quantized
    ]
    rows = {
        weight.shape[1]: torch.randint(0, 255, (tokens, weight.shape[1]), dtype=torch.uint8)
        for weight in weights
    }
    scales = [torch.full((len(weight),), 0.01) for weight in weights]
    zeros = [torch.zeros(len(weight), dtype=torch.int64) for weight in weights]

    def torchs() -> None:
        for weight, inner, scale, zero in zip(weights, packed, scales, zeros, strict=True):
            torch.ops.onednn.qlinear_pointwise(
                rows[weight.shape[1]], 0.02, 128, inner, scale, zero, None,
                1.0, 0, torch.bfloat16, "none", [], "",
            )  # fmt: skip

    torchs()
    return torchs
