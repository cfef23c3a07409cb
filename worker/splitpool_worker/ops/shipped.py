"""Which of the libraries that came with this package fits this CPU?

`python -m splitpool_worker.ops.shipped FOLDER` compiles them, one for each kind of CPU. Images
carry them, so that a worker needs no compiler and no folder that it may write.
"""

import os
import sys
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from splitpool_worker.ops.compiling import compile_to, compiler, key

FOLDER = Path(__file__).with_name("shipped")
CPUINFO = Path("/proc/cpuinfo")


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """A kind of CPU: the compiler's flags for it, and the flags in /proc/cpuinfo that it takes."""

    name: str
    target: tuple[str, ...]
    needs: frozenset[str]

    @property
    def file(self) -> str:
        """Other sources or flags have another name, so nothing stale is ever loaded."""
        return f"ops-{self.name}-{key(self.target)}.so"


# The names of x86-64-v3 and x86-64-v4 in the psABI, as the kernel spells what they consist of.
_V3_NAMES = (
    "fpu cx8 cmov fxsr mmx sse sse2 lm cx16 lahf_lm popcnt pni ssse3 sse4_1 sse4_2 "
    "avx avx2 bmi1 bmi2 f16c fma abm movbe xsave"
)
_V3 = frozenset(_V3_NAMES.split())
_V4 = _V3 | {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}
_VNNI = _V4 | {"avx512_vnni"}
_BF16 = _VNNI | {"avx512_bf16"}
_AMX = _BF16 | {"amx_tile", "amx_bf16", "amx_int8"}
_VNNI_FLAGS = ("-march=x86-64-v4", "-mavx512vnni")
_BF16_FLAGS = (*_VNNI_FLAGS, "-mavx512bf16")

# The best first.
VARIANTS = (
    Variant(
        name="amx",
        target=(*_BF16_FLAGS, "-mamx-tile", "-mamx-bf16", "-mamx-int8"),
        needs=_AMX,
    ),
    Variant(name="avx512-bf16", target=_BF16_FLAGS, needs=_BF16),
    Variant(name="avx512-vnni", target=_VNNI_FLAGS, needs=_VNNI),
    Variant(name="avx512", target=("-march=x86-64-v4",), needs=_V4),
    Variant(name="avx2", target=("-march=x86-64-v3",), needs=_V3),
)


def fitting(flags: Iterable[str], folder: Path) -> Path | None:
    """The best library of the folder for a CPU with these flags; None where none fits."""
    there = frozenset(flags)
    for variant in VARIANTS:
        path = folder / variant.file
        if variant.needs <= there and path.exists():
            return path
    return None


def cpu_flags(cpuinfo: Path = CPUINFO) -> frozenset[str]:
    """What every CPU of this machine can do and the kernel permits; nothing where it is not x86."""
    try:
        lines = cpuinfo.read_text().splitlines()
    except OSError:
        return frozenset()
    flags = [frozenset(line.split()[2:]) for line in lines if line.startswith("flags")]
    return frozenset.intersection(*flags) if flags else frozenset()


def ship(folder: Path) -> None:
    """Compile every variant into the folder. Raises BuildFailed."""
    folder.mkdir(parents=True, exist_ok=True)
    program = compiler()

    def compile_one(variant: Variant) -> None:
        compile_to(folder / variant.file, program, variant.target)
        print(f"compiled {variant.file}", file=sys.stderr)

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(compile_one, VARIANTS))


if __name__ == "__main__":
    ship(Path(sys.argv[1]))
