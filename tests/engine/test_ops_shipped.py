"""A library that came with the package is loaded where the CPU has all that it takes, else not."""

import re
import subprocess
from pathlib import Path

import pytest

from splitpool_worker.ops.build import library
from splitpool_worker.ops.compiling import compiler
from splitpool_worker.ops.shipped import VARIANTS, Variant, cpu_flags, fitting

# What compilers call the instruction sets that they may use, where the kernel's word is another.
KERNEL_NAMES = {
    "SSE3": "pni",
    "BMI": "bmi1",
    "LZCNT": "abm",
    "LAHF_SAHF": "lahf_lm",
    "AVX512BF16": "avx512_bf16",
    "AVX512VNNI": "avx512_vnni",
}
# Macros of the same form that are no instruction set of their own.
OTHERS = {"SSE_MATH", "SSE2_MATH", "MMX_WITH_SSE", "CRC32"}
IS_X86 = bool(cpu_flags())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with every library."""
    for variant in VARIANTS:
        (tmp_path / variant.file).touch()
    return tmp_path


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: variant.name)
def test_the_best_library_whose_flags_the_cpu_has_is_taken(folder: Path, variant: Variant) -> None:
    assert fitting(variant.needs | {"hypervisor"}, folder) == folder / variant.file


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: variant.name)
def test_one_missing_flag_is_enough_not_to_load_it(folder: Path, variant: Variant) -> None:
    every = frozenset().union(*(each.needs for each in VARIANTS))
    for flag in variant.needs:
        assert fitting(every - {flag}, folder) != folder / variant.file


def test_no_library_fits_a_cpu_without_flags_or_a_folder_without_libraries(
    folder: Path, tmp_path: Path
) -> None:
    assert fitting(frozenset(), folder) is None
    assert fitting(VARIANTS[0].needs, tmp_path / "none") is None


def test_a_library_of_other_sources_is_not_loaded(tmp_path: Path) -> None:
    (tmp_path / "ops-amx-0123456789abcdef01234567.so").touch()
    assert fitting(VARIANTS[0].needs, tmp_path) is None


def test_only_what_all_cpus_of_a_machine_can_do_counts(tmp_path: Path) -> None:
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text("processor\t: 0\nflags\t\t: fpu avx2 amx_tile\n\nflags\t\t: fpu avx2\n")
    assert cpu_flags(cpuinfo) == {"fpu", "avx2"}
    assert cpu_flags(tmp_path / "none") == frozenset()


@pytest.mark.skipif(not IS_X86, reason="the shipped libraries are for x86-64")
@pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: variant.name)
def test_every_instruction_set_that_the_compiler_may_use_is_asked_of_the_cpu(
    variant: Variant,
) -> None:
    command = [compiler(), *variant.target, "-dM", "-E", "-x", "c++", "/dev/null"]
    macros = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    sets = r"__((?:MMX|F?XS|S?SSE|AVX|AMX|FMA|BMI|F16C|LZCNT|POPCNT|MOVBE|LAHF|CRC)[0-9A-Z_]*?)__ "
    used = set(re.findall(sets, macros)) - OTHERS
    assert {KERNEL_NAMES.get(name, name.lower()) for name in used} <= variant.needs
    assert len(used) > 15


@pytest.mark.skipif(not IS_X86, reason="the shipped libraries are for x86-64")
def test_what_is_shipped_needs_neither_a_compiler_nor_a_cache(
    monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    wanted = fitting(cpu_flags(), folder)
    if wanted is None:
        pytest.skip("this CPU is older than every library that is shipped")
    monkeypatch.setenv("CXX", "no-such-compiler")
    monkeypatch.setenv("XDG_CACHE_HOME", "/dev/null")
    assert library(came_with=folder) == wanted
