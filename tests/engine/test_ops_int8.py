"""The int8 operations in C++ against plain torch: both types, every instruction set."""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from ops_scenes import Scene, attended
from splitpool_worker.ops.cpu import CpuOps
from splitpool_worker.ops.cpu_int8 import HEADER, CpuInt8Ops
from splitpool_worker.ops.reference_int8 import ReferenceInt8Ops, block, quantised, rotated

DTYPES = [torch.float32, torch.bfloat16]
FLAGS = set(Path("/proc/cpuinfo").read_text().split())
# Each set of instructions that the int8 kernels have code for, and what a CPU needs to run it.
TARGETS = {
    "native": (["-march=native"], set[str]()),
    "vnni": (["-march=cascadelake"], {"avx512_vnni", "avx512bw"}),
    "avx-vnni": (["-march=haswell", "-mavxvnni"], {"avx_vnni", "fma"}),
    "avx512": (["-march=skylake-avx512"], {"avx512bw", "avx512dq", "avx512vl"}),
    "avx2": (["-march=haswell"], {"avx2", "fma"}),
    "avx": (["-march=sandybridge"], {"avx"}),
    "sse": (["-march=x86-64-v2"], {"sse4_2"}),
}


@pytest.fixture(scope="module", params=TARGETS)
def target(request: pytest.FixtureRequest) -> list[str]:
    flags, needed = TARGETS[request.param]
    if not needed <= FLAGS:
        pytest.skip(f"this CPU lacks {needed - FLAGS}")
    return flags


@pytest.fixture(params=DTYPES, ids=["fp32", "bf16"])
def dtype(request: pytest.FixtureRequest) -> torch.dtype:
    found: torch.dtype = request.param
    return found


@pytest.fixture
def cpu(target: list[str], dtype: torch.dtype) -> CpuInt8Ops:
    return CpuInt8Ops(2, dtype, target)


@pytest.fixture
def reference(dtype: torch.dtype) -> ReferenceInt8Ops:
    return ReferenceInt8Ops(dtype)


def rows_of(x: torch.Tensor) -> torch.Tensor:
    """x as the C++ operations have it quantised."""
    found, scales = quantised(x)
    header = torch.zeros(len(x), HEADER, dtype=torch.uint8)
    header[:, :4] = scales.view(torch.uint8)
    return torch.cat([header, (found.short() + 128).to(torch.uint8)], dim=1)


def elements(rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """int8 and scales [R, 1] of rows as the C++ operations have them."""
    scales = rows[:, :4].clone().view(torch.float32)
    return (rows[:, HEADER:].short() - 128).to(torch.int8), scales


def within_half_a_step(rows: torch.Tensor, expected: torch.Tensor) -> None:
    """What the quantised rows stand for, and what was quantised; a rounding may add to it."""
    found, scales = elements(rows)
    meant = rotated(found.float() * scales) / block(expected.shape[1])
    assert bool(((meant - expected.float()).abs() <= scales).all())


def same(found: torch.Tensor, expected: torch.Tensor) -> None:
    """The same bits, or NaN both."""
    torch.testing.assert_close(found, expected, rtol=0, atol=0, equal_nan=True)


def matrices(dtype: torch.dtype, seed: int) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """x [T, K] and weights [N, K]: odd T and N, and K for every kernel."""
    draw = random.Random(seed)
    torch.manual_seed(seed)
    shapes = [
        (rows, draw.choice([16, 48, 64, 112, 192, 320]), draw.choice([1, 7, 16, 31, 99, 144, 250]))
        for rows in (1, 2, 3, 5, 6, 7, 12, 13, 16, 17, 31, 33, 47, 64, 70)
    ]
    # More rows than stay in a cache, and more columns.
    for rows, columns, outputs in (*shapes, (150, 64, 40), (1, 1040, 72), (40, 4160, 56)):
        yield torch.randn(rows, columns).to(dtype), torch.randn(outputs, columns).to(dtype)


def test_linear_is_the_bits_of_the_reference(cpu: CpuInt8Ops, reference: ReferenceInt8Ops) -> None:
    for x, weight in matrices(reference.dtype, 1):
        expected = reference.linear(x, reference.pack(weight))
        same(cpu.linear(rows_of(x), cpu.pack(weight)), expected)


def test_logits_are_linear_rounded_to_the_dtype_in_float32(cpu: CpuInt8Ops) -> None:
    for x, weight in matrices(cpu.dtype, 2):
        rows, packed = rows_of(x), cpu.pack(weight)
        assert torch.equal(cpu.logits(rows, packed), cpu.linear(rows, packed).float())


def test_the_largest_elements_overflow_nothing(
    cpu: CpuInt8Ops, reference: ReferenceInt8Ops
) -> None:
    for sign in (1, -1):
        x = torch.full((3, 1040), 2.0, dtype=cpu.dtype)
        weight = torch.full((33, 1040), sign * 3.0, dtype=cpu.dtype)
        found = cpu.linear(rows_of(x), cpu.pack(weight))
        same(found, reference.linear(x, reference.pack(weight)))
        assert float(found[0, 0]) == pytest.approx(sign * 6240, rel=0.01)


ODD_ROWS = {
    "zeros": lambda row: row.zero_(),
    "one huge element": lambda row: row[5].fill_(3e38),
    "the smallest magnitudes": lambda row: row.mul_(1e-38),
    "a NaN": lambda row: row[7].fill_(torch.nan),
    "an infinity": lambda row: row[7].fill_(-torch.inf),
}


@pytest.mark.parametrize("name", ODD_ROWS)
def test_an_odd_row_is_as_in_the_reference_and_its_neighbours_do_not_notice(
    cpu: CpuInt8Ops, reference: ReferenceInt8Ops, name: str
) -> None:
    torch.manual_seed(6)
    weight = torch.randn(48, 192).to(cpu.dtype)
    x = torch.randn(4, 192).to(cpu.dtype)
    plain = cpu.linear(rows_of(x), cpu.pack(weight))
    ODD_ROWS[name](x[2])
    found = cpu.linear(rows_of(x), cpu.pack(weight))
    same(found, reference.linear(x, reference.pack(weight)))
    same(found[[0, 1, 3]], plain[[0, 1, 3]])
    assert bool(found[2].isnan().all()) == (name in ("a NaN", "an infinity"))
    ODD_ROWS[name](weight[17])
    same(cpu.linear(rows_of(x), cpu.pack(weight)), reference.linear(x, reference.pack(weight)))


@pytest.mark.parametrize("name", [*ODD_ROWS, "nothing odd"])
@pytest.mark.parametrize("columns", [16, 48, 576])
def test_rows_are_quantised_as_the_reference_quantises_them(
    cpu: CpuInt8Ops, name: str, columns: int
) -> None:
    """Rows of ones are their own norm, to the bit, so what is quantised is the norm's weight."""
    torch.manual_seed(columns)
    weight = torch.randn(columns).to(cpu.dtype)
    ODD_ROWS.get(name, torch.Tensor.neg_)(weight)
    x = (torch.randint(0, 2, (7, columns)) * 2 - 1).to(cpu.dtype)
    found, scales = elements(cpu.rms_norm(x, weight, 0.0))
    expected, expected_scales = quantised(x * weight)
    same(scales, expected_scales)
    if not scales.isnan().any():
        same(found, expected)


@pytest.mark.parametrize(("columns", "size"), [(16, 16), (96, 32), (576, 64), (1536, 64)])
def test_a_large_element_is_spread_over_its_block_and_no_further(columns: int, size: int) -> None:
    x = torch.zeros(1, columns)
    x[0, 5] = 3.0
    found = rotated(x)
    assert torch.equal(found.abs()[0], torch.where(torch.arange(columns) < size, 3.0, 0.0))
    assert torch.equal(rotated(found), size * x)


@pytest.mark.parametrize("rows", [1, 2, 7, 65])
def test_norms_are_those_of_the_reference_quantised(
    cpu: CpuInt8Ops, reference: ReferenceInt8Ops, rows: int
) -> None:
    torch.manual_seed(rows)
    weight = torch.randn(576).to(cpu.dtype)
    x, residual = torch.randn(2, rows, 576).to(cpu.dtype) * 3
    ours, theirs = residual.clone(), residual.clone()
    found = cpu.add_rms_norm(ours, x, weight, 1e-5)
    expected = reference.add_rms_norm(theirs, x, weight, 1e-5)
    assert torch.equal(ours, theirs)
    within_half_a_step(found, expected)


def test_the_gated_product_is_that_of_the_reference_quantised(
    cpu: CpuInt8Ops, reference: ReferenceInt8Ops
) -> None:
    torch.manual_seed(5)
    for rows, columns, inner in ((1, 96, 16), (5, 112, 48), (33, 64, 80), (70, 192, 144)):
        gate, up = torch.randn(2, inner, columns).to(cpu.dtype)
        x = torch.randn(rows, columns).to(cpu.dtype)
        expected = reference.gated(x, reference.pack_gate_up(gate, up))
        within_half_a_step(cpu.gated(rows_of(x), cpu.pack_gate_up(gate, up)), expected)


def test_a_row_is_the_same_bits_whoever_is_computed_with_it(cpu: CpuInt8Ops) -> None:
    torch.manual_seed(3)
    gate, up = torch.randn(2, 144, 1088).to(cpu.dtype)
    packed, pair = cpu.pack(gate), cpu.pack_gate_up(gate, up)
    x = rows_of(torch.randn(150, 1088).to(cpu.dtype))
    whole, activated = cpu.linear(x, packed), cpu.gated(x, pair)
    for count in (1, 2, 3, 4, 5, 6, 7, 16, 17, 33, 64, 97):
        some = x[-count:].clone()
        assert torch.equal(cpu.linear(some, packed), whole[-count:])
        for ours, theirs in zip(
            elements(cpu.gated(some, pair)), elements(activated[-count:]), strict=True
        ):
            assert torch.equal(ours, theirs)


def test_embed_gives_the_rows_that_were_packed_to_half_a_step(
    cpu: CpuInt8Ops, reference: ReferenceInt8Ops
) -> None:
    table = torch.randn(203, 96).to(cpu.dtype)
    tokens = torch.tensor([0, 202, 17, 16, 15, 17])
    found = cpu.embed(cpu.pack(table), tokens)
    same(found, reference.embed(reference.pack(table), tokens))
    steps = quantised(table)[1][tokens]
    assert bool(((found - table[tokens]).abs() <= steps).all())


@pytest.mark.parametrize("seed", range(6))
def test_attention_is_that_of_the_plain_operations_quantised(
    cpu: CpuInt8Ops, target: list[str], seed: int
) -> None:
    scene = Scene.random(seed)
    rows, found, _ = attended(scene, cpu, cpu.dtype, seed)
    plain_rows, plain, _ = attended(scene, CpuOps(2, target), cpu.dtype, seed)
    assert torch.equal(rows, plain_rows)
    for ours, expected in zip(elements(found), quantised(plain), strict=True):
        same(ours, expected)
