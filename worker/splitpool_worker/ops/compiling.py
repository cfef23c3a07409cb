"""How do the C++ operations become a library? By one call of the machine's C++ compiler."""

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

SOURCE = Path(__file__).with_name("cpu.cpp")
FLAGS = (
    "-std=c++17",
    "-O3",
    "-fopenmp",
    "-shared",
    "-fPIC",
    "-fno-math-errno",
    "-Wno-psabi",
)
COMPILE_SECONDS = 300


class BuildFailed(Exception):
    """There is no library; the message says why in one line."""


def compiler() -> str:
    """The compiler of CXX, or the machine's own. Raises BuildFailed."""
    found = shutil.which(os.environ.get("CXX", "c++"))
    if found is None:
        raise BuildFailed("no C++ compiler was found (install g++, or name one in CXX)")
    return found


def key(target: Sequence[str], *others: bytes) -> str:
    """A name for what the sources, the flags, the target's flags and `others` make."""
    digest = hashlib.sha256()
    for path in (SOURCE, *sorted(SOURCE.with_name("native").glob("*.h"))):
        digest.update(path.read_bytes())
    for part in (" ".join((*FLAGS, *target)).encode(), *others):
        digest.update(part + b"\0")
    return digest.hexdigest()[:24]


def compile_to(path: Path, program: str, target: Sequence[str]) -> None:
    """The library appears at `path` when it is complete. Raises BuildFailed, OSError and
    SubprocessError."""
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        made = Path(folder) / path.name
        result = subprocess.run(
            [program, *FLAGS, *target, str(SOURCE), "-o", str(made)],
            capture_output=True,
            text=True,
            timeout=COMPILE_SECONDS,
            check=False,
        )
        if result.returncode != 0:
            first = next((line for line in result.stderr.splitlines() if "error" in line), "")
            raise BuildFailed(f"the C++ operations do not compile with {program}: {first}")
        made.replace(path)
