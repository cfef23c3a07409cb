"""What do guessed tokens give? The same requests with and without, in turns, one at a time.

    python bench/drafting.py [--model URI] [--dtype bfloat16] [--quantization int8] [--rounds N]

Prose is what people ask, answered greedily and at a temperature; random words are what load
generators send, and the answers to those soon repeat themselves. Answers must be the same.
"""

from __future__ import annotations

import argparse
import random
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from splitpool_bench.prompts import COMMON_WORDS, Vocabulary
from splitpool_bench.report import Check, finish, machine, table
from splitpool_bench.script import model_arguments, set_threads

if TYPE_CHECKING:
    from splitpool_worker.engine.batch import Runner
    from splitpool_worker.schedule.sequence import Request, TokenOutput
    from splitpool_worker.schedule.stats import StepStats
    from splitpool_worker.text.tokenizer import TextModel

MAX_LEN, BLOCK_SIZE, DRAFTS, WORDS = 1024, 16, 7, 128
PROSE = (
    "Explain to a new engineer how a load balancer decides where a request goes.",
    "Write a short story about a lighthouse keeper who finds a letter.",
    "What were the main causes of the French Revolution? Give a list.",
    "Write a Python function that reads a CSV file and returns its rows as dictionaries.",
    "Give me a recipe for tomato soup for four people.",
    "I wake up at three every night. How do I sleep better?",
    "Summarise this: the committee met on Monday to discuss the budget. It had grown by ten "
    "percent, because of salaries and of the rent of the new building. Two members asked whether "
    "the rent could be renegotiated; the chair said that it could not before the third year.",
    "Correct the mistakes and give the text back: The committe meet on monday to discus the new "
    "budget. The chair say that it have grown by ten percent since the last year.",
)
HEADER = ("answers to", "tokens/s without", "with", "ratio", "tokens a step", "guesses right")


@dataclass
class Served:
    """Decoding of some requests: its tokens, seconds, steps and guesses."""

    tokens: int = 0
    seconds: float = 0.0
    steps: int = 0
    drafted: int = 0
    accepted: int = 0
    answers: list[list[int]] = field(default_factory=list)

    def count(self, stats: StepStats) -> None:
        """A step, where it only decodes."""
        classes = stats.classes.values()
        if any(each.prefill_tokens for each in classes):
            return
        self.steps += 1
        self.seconds += stats.seconds
        self.drafted += sum(each.draft_tokens for each in classes)
        self.accepted += sum(each.accepted_tokens for each in classes)
        self.tokens += sum(each.decode_tokens + each.accepted_tokens for each in classes)

    @property
    def rate(self) -> float:
        return self.tokens / self.seconds


def requests(
    prompts: Sequence[Sequence[int]], stops: frozenset[int], temperature: float, output: int
) -> list[Request]:
    from splitpool_worker.schedule.sequence import LatencyClass, Request, SamplingParams

    return [
        Request(
            id=str(i),
            cls=LatencyClass.INTERACTIVE,
            prompt=tuple(prompt),
            max_tokens=output,
            params=SamplingParams(seed=i, temperature=temperature),
            stop_token_ids=stops,
            arrival=0.0,
        )
        for i, prompt in enumerate(prompts)
    ]


def serve(runner: Runner, asked: Sequence[Request], drafts: int, served: Served) -> None:
    """One request after the other through an engine of its own."""
    from splitpool_worker.engine.engine import ClassLimits, Engine, WorkerLimits
    from splitpool_worker.schedule.sequence import LatencyClass

    ended = threading.Event()
    tokens: list[int] = []

    def take(outputs: Sequence[TokenOutput]) -> None:
        tokens.extend(each.token_id for each in outputs if each.token_id is not None)
        if outputs[-1].finish is not None:
            ended.set()

    of_class = ClassLimits(
        cls=LatencyClass.INTERACTIVE,
        vram_bytes=0,
        kv_blocks=runner.num_blocks,
        max_batch=1,
        max_wait_s=0.0,
        token_budget=MAX_LEN,
        prefill_chunk=MAX_LEN,
        prefix_cache=False,
    )
    limits = WorkerLimits(
        classes=(of_class,),
        block_size=BLOCK_SIZE,
        max_model_len=MAX_LEN,
        max_step_s=1.0,
        draft_tokens=drafts,
    )
    engine = Engine(runner, limits, on_outputs=take, on_step=served.count)
    engine.start()
    for request in asked:
        ended.clear()
        tokens.clear()
        engine.submit(request)
        if not ended.wait(120):
            raise TimeoutError("a request did not end")
        served.answers.append(list(tokens))
    engine.stop(60)


def both(runner: Runner, asked: Sequence[Request], rounds: int) -> tuple[Served, Served]:
    """The requests without drafts and with them, as often as that, each side first in turn."""
    plain, drafted = Served(), Served()
    order = ((plain, 0), (drafted, DRAFTS))
    for turn in range(rounds):
        for served, drafts in order if turn % 2 else order[::-1]:
            serve(runner, asked, drafts, served)
    return plain, drafted


def row(name: str, plain: Served, drafted: Served) -> tuple[str, ...]:
    return (
        name,
        f"{plain.rate:.0f}",
        f"{drafted.rate:.0f}",
        f"{drafted.rate / plain.rate:.2f}",
        f"{drafted.tokens / drafted.steps:.2f}",
        f"{drafted.accepted / max(1, drafted.drafted):.0%}",
    )


def prompts_of(text: TextModel) -> tuple[list[list[int]], list[list[int]]]:
    """Tokens of the prose's prompts, and of as many of random words."""
    prose = [text.encode_chat([{"role": "user", "content": each}]) for each in PROSE]
    words, rng = Vocabulary(words=COMMON_WORDS, added_tokens=0), random.Random(7)
    return prose, [text.encode(words.prompt(WORDS, rng)) for _ in PROSE]


def parse() -> argparse.Namespace:
    parser = model_arguments(__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="each in the other order")
    parser.add_argument("--output", type=int, default=128, help="longest answer in tokens")
    return parser.parse_args()


def main() -> int:
    options = parse()
    set_threads(options.threads)
    from splitpool_worker.checkpoint.weights import resolve
    from splitpool_worker.engine.runner import TorchRunner
    from splitpool_worker.text import tokenizer

    about = machine()
    runner = TorchRunner.load(
        options.model,
        dtype=options.dtype,
        quantization=options.quantization,
        num_blocks=MAX_LEN // BLOCK_SIZE,
        max_model_len=MAX_LEN,
        threads=options.threads,
    )
    runner.commit()
    text = tokenizer.load(resolve(options.model))
    prose, words = prompts_of(text)
    cases = {
        "prose, greedy": requests(prose, text.eos_ids, 0.0, options.output),
        "prose, temperature 0.7": requests(prose, text.eos_ids, 0.7, options.output),
        "random words, greedy": requests(words, frozenset(), 0.0, options.output),
    }
    taken = {name: both(runner, asked, options.rounds) for name, asked in cases.items()}
    rows = [row(name, *each) for name, each in taken.items()]
    print(table(HEADER, rows))
    differing = sum(
        one != other
        for plain, drafted in taken.values()
        for one, other in zip(plain.answers, drafted.answers, strict=True)
    )
    return finish(
        checks=[Check(name="answers that differ", measured=differing, limit=0)],
        details={"rows": [dict(zip(HEADER, each, strict=True)) for each in rows]},
        about=about,
        path=options.json,
    )


if __name__ == "__main__":
    raise SystemExit(main())
