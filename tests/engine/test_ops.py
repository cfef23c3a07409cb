"""The C++ operations against plain torch: random shapes, both types, every instruction set."""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from ops_scenes import Scene, attended
from splitpool_worker.ops.cpu import CpuOps
from splitpool_worker.ops.reference import ReferenceOps

REFERENCE = ReferenceOps()
DTYPES = [torch.float32, torch.bfloat16]
FLAGS = set(Path("/proc/cpuinfo").read_text().split())
# Each set of instructions that the kernels have code for, and what a CPU needs to run it.
TARGETS = {
    "native": ("-march=native", set[str]()),
    "avx512-bf16": ("-march=cooperlake", {"avx512_bf16"}),
    "avx2": ("-march=haswell", {"avx2", "fma"}),
    "sse": ("-march=x86-64-v2", {"sse4_2"}),
}


@pytest.fixture(scope="module", params=TARGETS)
def cpu(request: pytest.FixtureRequest) -> CpuOps:
    target, needed = TARGETS[request.param]
    if not needed <= FLAGS:
        pytest.skip(f"this CPU lacks {needed - FLAGS}")
    return CpuOps(2, [target])


@pytest.fixture(params=DTYPES, ids=["fp32", "bf16"])
def dtype(request: pytest.FixtureRequest) -> torch.dtype:
    found: torch.dtype = request.param
    return found


def close(found: torch.Tensor, expected: torch.Tensor, dtype: torch.dtype) -> None:
    """Two roundings of the dtype apart at most, relative to the largest value."""
    assert found.dtype == expected.dtype
    step = 2**-7 if dtype == torch.bfloat16 else 2**-18
    scale = float(expected.float().abs().max())
    torch.testing.assert_close(found, expected, rtol=step, atol=step * scale)


def matrices(dtype: torch.dtype, seed: int) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """x [T, K] and weights [N, K] with odd T and N; K of both kinds (with and without tiles)."""
    draw = random.Random(seed)
    torch.manual_seed(seed)
    for rows in (1, 2, 3, 5, 8, 15, 16, 17, 31, 33, 47, 64, 70):
        columns = 32 * draw.randint(1, 9) + draw.choice([0, 0, 16])
        outputs = draw.choice([1, 7, 16, 31, 48, 99, 144, 250])
        yield torch.randn(rows, columns).to(dtype), torch.randn(outputs, columns).to(dtype)
    # More than a block of rows, and more than a block of columns.
    for rows, columns, outputs in ((205, 96, 40), (1, 1040, 72), (9, 1600, 56)):
        yield torch.randn(rows, columns).to(dtype), torch.randn(outputs, columns).to(dtype)


def test_linear_equals_the_reference(cpu: CpuOps, dtype: torch.dtype) -> None:
    for x, weight in matrices(dtype, 1):
        expected = REFERENCE.linear(x, REFERENCE.pack(weight))
        close(cpu.linear(x, cpu.pack(weight)), expected, dtype)


def test_logits_are_linear_rounded_to_the_dtype_in_float32(cpu: CpuOps, dtype: torch.dtype) -> None:
    for x, weight in matrices(dtype, 2):
        packed = cpu.pack(weight)
        assert torch.equal(cpu.logits(x, packed), cpu.linear(x, packed).float())


def test_a_row_of_linear_is_the_same_bits_whoever_is_computed_with_it(
    cpu: CpuOps, dtype: torch.dtype
) -> None:
    torch.manual_seed(3)
    packed = cpu.pack(torch.randn(144, 1040).to(dtype))
    x = torch.randn(150, 1040).to(dtype)
    whole = cpu.linear(x, packed)
    for count in (1, 2, 3, 4, 5, 6, 7, 16, 17, 33, 64, 97):
        assert torch.equal(cpu.linear(x[-count:].clone(), packed), whole[-count:])


@pytest.mark.parametrize("width", [1, 15, 64, 511, 512, 513, 49_152])
def test_the_best_of_a_row_is_its_first_largest_element(cpu: CpuOps, width: int) -> None:
    torch.manual_seed(width)
    rows = torch.randn(40, width).bfloat16().float()  # few values, so that many are the largest
    rows[3] = -torch.inf
    rows[4, width // 2] = torch.inf
    rows[5:7] = 0.0
    rows[6, width - 1] = torch.nan
    rows[7, 0] = torch.nan
    rows[8, [0, width - 1]] = torch.tensor([torch.inf, -torch.inf])
    values, indices = (found[:, 0] for found in cpu.best(rows))

    expected = REFERENCE.best(rows)[0][:, 0]
    torch.testing.assert_close(values, expected, rtol=0, atol=0, equal_nan=True)
    first = (rows == expected[:, None]).int().argmax(-1)
    usual = ~expected.isnan()
    assert usual.sum() >= 38
    assert torch.equal(indices[usual], first[usual])


def test_embed_gives_back_the_rows_that_were_packed(cpu: CpuOps, dtype: torch.dtype) -> None:
    table = torch.randn(203, 96).to(dtype)
    tokens = torch.tensor([0, 202, 17, 16, 15, 17])
    assert torch.equal(cpu.embed(cpu.pack(table), tokens), table[tokens])


@pytest.mark.parametrize("rows", [1, 2, 7, 65])
def test_norms_equal_the_reference(cpu: CpuOps, dtype: torch.dtype, rows: int) -> None:
    torch.manual_seed(rows)
    weight = torch.randn(576).to(dtype)
    x, residual = torch.randn(2, rows, 576).to(dtype) * 3
    close(cpu.rms_norm(x, weight, 1e-5), REFERENCE.rms_norm(x, weight, 1e-5), dtype)
    ours, theirs = residual.clone(), residual.clone()
    found = cpu.add_rms_norm(ours, x, weight, 1e-5)
    expected = REFERENCE.add_rms_norm(theirs, x, weight, 1e-5)
    close(found, expected, dtype)
    assert torch.equal(ours, theirs)


@pytest.mark.parametrize("size", [0.02, 1.0, 30.0])
def test_the_gated_product_equals_the_reference(
    cpu: CpuOps, dtype: torch.dtype, size: float
) -> None:
    torch.manual_seed(5)
    for rows, columns, inner in ((1, 96, 16), (5, 112, 48), (33, 64, 80), (70, 160, 144)):
        gate, up = torch.randn(2, inner, columns).to(dtype)
        x = (size * torch.randn(rows, columns)).to(dtype)
        expected = REFERENCE.gated(x, REFERENCE.pack_gate_up(gate, up))
        close(cpu.gated(x, cpu.pack_gate_up(gate, up)), expected, dtype)


@pytest.mark.parametrize("seed", range(12))
def test_attention_over_random_pages_equals_the_reference(
    cpu: CpuOps, dtype: torch.dtype, seed: int
) -> None:
    scene = Scene.random(seed)
    rows, found, _ = attended(scene, cpu, dtype, seed)
    expected_rows, expected, _ = attended(scene, REFERENCE, dtype, seed)
    queries = scene.heads * scene.head_dim
    assert not found.isnan().any()
    close(rows[:, :queries], expected_rows[:, :queries], dtype)
    close(found, expected, dtype)


@pytest.mark.parametrize("seed", range(3))
def test_a_row_of_attention_is_the_same_bits_however_a_prompt_was_cut(
    cpu: CpuOps, dtype: torch.dtype, seed: int
) -> None:
    scene = Scene.random(seed)
    rows, whole, layer = attended(scene, cpu, dtype, seed)
    last = [sum(scene.queries[: index + 1]) - 1 for index in range(3)]
    at = scene.indices([context - 1 for context in scene.contexts], scene.contexts)
    alone = cpu.paged_attention(rows[last].clone(), at, layer)
    assert torch.equal(alone, whole[last])


def test_a_nan_that_is_read_is_seen(cpu: CpuOps, dtype: torch.dtype) -> None:
    scene = Scene.random(4)
    rows, _, layer = attended(scene, cpu, dtype, 4)
    layer.k[scene.tables[0][0]] = torch.nan
    at = scene.indices(scene.starts, scene.contexts)
    assert cpu.paged_attention(rows, at, layer)[: scene.queries[0]].isnan().any()
