"""What does a step cost beside the model? Engine and scheduler with a model that does nothing.

Sequences end and are replaced all the time, so that every step decodes, and many admit and
prefill. The bars: 5 % of a decode step of SmolLM2-135M with 1, 8 and 64 sequences on two cores
(8.4, 13.7 and 61 ms), and with 10,000 requests waiting at most 1.5 x the work with 100.
"""

import argparse
import itertools
import random
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean

import torch

from splitpool_bench.report import Check, finish, machine, table
from splitpool_bench.stats import quantile
from splitpool_worker.engine.batch import Batch, Runner
from splitpool_worker.engine.engine import ClassLimits, Engine, WorkerLimits
from splitpool_worker.sampling.largest import Best
from splitpool_worker.schedule.sequence import (
    FinishReason,
    LatencyClass,
    Request,
    SamplingParams,
    TokenOutput,
)
from splitpool_worker.schedule.stats import StepStats

BARS_MS = {1: 0.42, 8: 0.69, 64: 3.05}
WAITING = (100, 10_000)
BLOCK_SIZE = 16
MAX_MODEL_LEN = 512
VOCABULARY = 512  # small: the work of sampling grows with it, and belongs to the model


class NullRunner:
    """A model whose every logit is zero."""

    vocab_size = VOCABULARY
    max_model_len = MAX_MODEL_LEN
    block_size = BLOCK_SIZE
    independent_rows = True

    def __init__(self, num_blocks: int) -> None:
        self.num_blocks = num_blocks
        self._rows = 0
        self._logits = torch.zeros(256, VOCABULARY)

    def forward(self, batch: Batch) -> torch.Tensor:
        self._rows = len(batch.sample_rows)
        return self._logits[: self._rows]

    def best(self) -> Best:
        return Best([0.0] * self._rows, [0] * self._rows)

    def spent(self) -> Mapping[str, float]:
        return {}

    def poison(self, blocks: Iterable[int]) -> None:
        """There is no K/V to poison."""


class Recorder:
    """Keeps the number of requests constant and the records of the steps that count."""

    def __init__(self, submit: Callable[[], None], warm_up: int, wanted: int) -> None:
        self._submit = submit
        self._warm_up = warm_up
        self._wanted = wanted
        self.steps: list[StepStats] = []
        self.full = threading.Event()

    def on_outputs(self, outputs: Sequence[TokenOutput]) -> None:
        for output in outputs:
            if output.finish is FinishReason.LENGTH:  # and not the end of the engine
                self._submit()

    def on_step(self, stats: StepStats) -> None:
        if self._warm_up:
            self._warm_up -= 1
        elif len(self.steps) < self._wanted:
            self.steps.append(stats)
        else:
            self.full.set()


def limits(sequences: int) -> WorkerLimits:
    interactive = ClassLimits(
        cls=LatencyClass.INTERACTIVE,
        vram_bytes=0,
        kv_blocks=sequences * MAX_MODEL_LEN // BLOCK_SIZE,
        max_batch=sequences,
        max_wait_s=0.0,
        token_budget=sequences + 256,
        prefill_chunk=128,
        prefix_cache=True,
    )
    return WorkerLimits(
        classes=(interactive,), block_size=BLOCK_SIZE, max_model_len=MAX_MODEL_LEN, max_step_s=1.0
    )


def request(number: int, rng: random.Random, arrival: float) -> Request:
    return Request(
        id=str(number),
        cls=LatencyClass.INTERACTIVE,
        prompt=tuple(rng.choices(range(VOCABULARY), k=rng.randint(32, 128))),
        max_tokens=rng.randint(16, 128),
        params=SamplingParams(seed=number, temperature=0.0, ignore_eos=True),
        arrival=arrival,
    )


def measure(
    sequences: int, waiting: int, wanted: int, load: Callable[[int], Runner] = NullRunner
) -> list[StepStats]:
    """Records of `wanted` steps with `sequences` running and `waiting` behind them.

    load: makes the model, with so many KV blocks.
    """
    shape = limits(sequences)
    rng = random.Random(sequences)
    numbers = itertools.count()
    recorder = Recorder(
        lambda: engine.submit(request(next(numbers), rng, 0.0)), warm_up=50, wanted=wanted
    )
    engine = Engine(
        load(shape.classes[0].kv_blocks),
        shape,
        on_outputs=recorder.on_outputs,
        on_step=recorder.on_step,
    )
    for _ in range(sequences + waiting):
        engine.submit(request(next(numbers), rng, 0.0))
    engine.start()
    try:
        if not recorder.full.wait(timeout=120):
            raise RuntimeError(f"only {len(recorder.steps)} of {wanted} steps in 120 s")
    finally:
        engine.stop(timeout=10)
    return recorder.steps


def host_ms(step: StepStats) -> float:
    """A step without the model."""
    return (step.seconds - step.forward) * 1000


def row(sequences: int, waiting: int, steps: Sequence[StepStats]) -> tuple[str, ...]:
    parts = (fmean(step.parts[part] for step in steps) for part in PARTS)
    host = [host_ms(step) for step in steps]
    return (
        f"{sequences}",
        f"{waiting}",
        *(f"{part * 1000:.3f}" for part in parts),
        *(f"{quantile(host, q):.3f}" for q in (0.5, 0.99)),
    )


PARTS = ("schedule", "sample", "deliver")
HEADER = ("sequences", "waiting", *(f"{part} ms" for part in PARTS), "host p50 ms", "p99")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=500, help="steps that count, a case")
    parser.add_argument("--json", type=Path, help="write figures here as well")
    return parser.parse_args()


def main() -> int:
    options = parse()
    about = machine()
    cases = list(itertools.product(BARS_MS, WAITING))
    steps = {case: measure(*case, options.steps) for case in cases}
    print(table(HEADER, [row(*case, steps[case]) for case in cases]))
    host = {case: quantile([host_ms(step) for step in taken], 0.5) for case, taken in steps.items()}
    few, many = WAITING
    checks = [
        Check(name=f"host ms a step, {n} sequences", measured=host[n, few], limit=bar)
        for n, bar in BARS_MS.items()
    ] + [
        Check(
            name=f"{many} waiting / {few}, {n} sequences",
            measured=host[n, many] / host[n, few],
            limit=1.5,
        )
        for n in BARS_MS
    ]
    details = {f"{n} sequences, {w} waiting": ms for (n, w), ms in host.items()}
    return finish(checks=checks, details=details, about=about, path=options.json)


if __name__ == "__main__":
    raise SystemExit(main())
