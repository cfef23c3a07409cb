"""Where does a step's time go? Linears, attention, other operations, and the host's own work.

    python bench/step_profile.py [--model URI] [--dtype bfloat16] [--quantization int8] [--steps N]

The worker's engine with a real model; sequences end and are replaced all the time. The same parts
are in the worker's series `splitpool_worker_step_seconds{part}` and in its step log.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean
from typing import TYPE_CHECKING

from splitpool_bench.report import machine, table
from splitpool_bench.script import model_arguments, set_threads

if TYPE_CHECKING:
    from splitpool_worker.engine.batch import Runner
    from splitpool_worker.schedule.stats import StepStats

SEQUENCES = (1, 8, 64)
DEVICE = ("linears", "attention", "other")
HOST = ("schedule", "sample", "deliver")
HEADER = ("steps", "count", "ms", *(f"{part} %" for part in (*DEVICE, *HOST)), "host %")


def loader(options: argparse.Namespace) -> Callable[[int], Runner]:
    from splitpool_worker.engine.runner import TorchRunner

    def load(num_blocks: int) -> Runner:
        runner = TorchRunner.load(
            options.model,
            dtype=options.dtype,
            quantization=options.quantization,
            num_blocks=num_blocks,
            max_model_len=512,
            threads=options.threads,
        )
        runner.commit()
        return runner

    return load


def row(name: str, steps: Sequence[StepStats]) -> tuple[str, ...]:
    """Means, and the share of every part."""
    whole = fmean(step.seconds for step in steps)
    shares = {part: fmean(step.parts[part] for step in steps) / whole for part in (*DEVICE, *HOST)}
    host = sum(shares[part] for part in HOST)
    percent = (f"{share * 100:.1f}" for share in (*shares.values(), host))
    return (name, str(len(steps)), f"{whole * 1000:.2f}", *percent)


def rows(taken: Mapping[int, Sequence[StepStats]]) -> list[tuple[str, ...]]:
    found = []
    for sequences, steps in taken.items():
        pure = [step for step in steps if not _prefills(step)]
        mixed = [step for step in steps if _prefills(step)]
        for name, kept in (("decode", pure), ("with prefill", mixed)):
            if kept:
                found.append(row(f"{sequences} sequences, {name}", kept))
    return found


def _prefills(step: StepStats) -> bool:
    return any(each.prefill_tokens for each in step.classes.values())


def parse() -> argparse.Namespace:
    parser = model_arguments(__doc__)
    parser.add_argument("--steps", type=int, default=300, help="steps that count, a case")
    return parser.parse_args()


def main() -> int:
    options = parse()
    set_threads(options.threads)
    from host_overhead import measure

    about = machine()
    load = loader(options)
    found = rows({each: measure(each, 0, options.steps, load) for each in SEQUENCES})
    print(table(HEADER, found))
    print(f"\n{', '.join(f'{key} {value}' for key, value in about.items())}")
    if options.json:
        written = [dict(zip(HEADER, each, strict=True)) for each in found]
        options.json.write_text(json.dumps({"machine": about, "rows": written}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
