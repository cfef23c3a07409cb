"""The int8 operations in plain torch: short and obvious; the oracle of the C++ ones.

Weights are int8 with one scale for each output row, quantised when they are packed. Activations are
quantised row by row in front of every product, so a row's result never depends on its neighbours.
Sums of int8 are exact, whoever computes them and in whatever order.
"""

import math

import torch
import torch.nn.functional as F

from splitpool_worker.ops.interface import Weight
from splitpool_worker.ops.reference import ReferenceOps

STEPS = 127
# Magnitudes below this are 0, so that 127 over a magnitude is never infinite.
LEAST = 2.0**-100
# So many products of two int8 have a sum below 2^24, which float32 holds exactly.
EXACT = 1024


class ReferenceInt8Ops(ReferenceOps):
    quantization = "int8"

    def __init__(self, dtype: torch.dtype) -> None:
        """`dtype` is that of activations and KV."""
        self.dtype = dtype

    def pack(self, weight: torch.Tensor) -> Weight:
        rows, columns = weight.shape
        return _weight(weight, rows, columns)

    def pack_gate_up(self, gate: torch.Tensor, up: torch.Tensor) -> Weight:
        rows, columns = gate.shape
        return _weight(torch.cat([gate, up]), rows, columns)

    def embed(self, table: Weight, tokens: torch.Tensor) -> torch.Tensor:
        return (rotated(table.data[tokens].float()) * _scales(table)[tokens]).to(self.dtype)

    def linear(self, x: torch.Tensor, weight: Weight) -> torch.Tensor:
        rows, scales = quantised(x)
        sums = _sums(rows, weight.data).float()
        return (sums * scales * _scales(weight).T).to(self.dtype)

    def gated(self, x: torch.Tensor, weight: Weight) -> torch.Tensor:
        gate, up = self.linear(x, weight).chunk(2, dim=-1)
        return F.silu(gate) * up


def quantised(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """x [R, K], rotated, as int8 of at most 127 either way, and its scales [R, 1] in float32.

    A scale is the row's largest magnitude over 127; NaN where an element is not finite.
    """
    wide = rotated(x.float())
    most = wide.abs().amax(-1, keepdim=True).clamp_min(LEAST)
    most = most.where(most.isfinite(), torch.nan)
    inverse = torch.full_like(most, STEPS) / most  # a plain 127 / most would round twice
    return (wide * inverse).round().nan_to_num().to(torch.int8), most / STEPS


def rotated(x: torch.Tensor) -> torch.Tensor:
    """Each block of a row by the Walsh-Hadamard transform without its factor of 1 / sqrt(block).

    A large element is spread over its block, so that it leaves the others more of the steps
    (QuaRot, arXiv:2404.00456). Twice rotated is `block` times the same.
    """
    size, half = block(x.shape[-1]), 1
    while half < size:
        first, second = x.reshape(-1, 2, half).unbind(1)
        x = torch.stack([first + second, first - second], dim=1).reshape(x.shape)
        half *= 2
    return x


def block(columns: int) -> int:
    """The elements of a row of so many (a multiple of 16) that are rotated together."""
    return math.gcd(columns, 64)


def _weight(matrix: torch.Tensor, rows: int, columns: int) -> Weight:
    """Its scales make up for both rotations of a product."""
    data, scales = quantised(matrix)
    return Weight(data=data, scales=scales / block(columns), rows=rows, columns=columns)


def _scales(weight: Weight) -> torch.Tensor:
    assert weight.scales is not None, "a weight of other operations"
    return weight.scales


def _sums(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """x [T, K] times the weight [R, K] transposed in int32: exact, though float32 multiplies."""
    sums = torch.zeros((len(x), len(weight)), dtype=torch.int32, device=x.device)
    for start in range(0, x.shape[1], EXACT):
        some = slice(start, start + EXACT)
        sums += F.linear(x[:, some].float(), weight[:, some].float()).int()
    return sums
