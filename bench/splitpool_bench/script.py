"""What every script of bench/ has in common: its options, and one chain in a folder of its own."""

import argparse
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from splitpool_bench.chain import Chain, running


def arguments(description: str | None, file: Path) -> argparse.ArgumentParser:
    """A parser that knows --file, --seed and --json; a script adds its own."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--file", type=Path, default=file, help="a pool file (%(default)s)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path, help="write figures here as well")
    return parser


def set_threads(count: int) -> None:
    """Torch's threads, waiting as a worker's do. OpenMP reads both once, when torch loads it."""
    os.environ.setdefault("OMP_NUM_THREADS", str(count))
    os.environ.setdefault("GOMP_SPINCOUNT", "2000")


@contextmanager
def one_chain(file: Path) -> Iterator[Chain]:
    """The pools of a file, served while the block runs."""
    with (
        tempfile.TemporaryDirectory(prefix="splitpool-bench-") as folder,
        running(file, Path(folder)) as chain,
    ):
        yield chain
