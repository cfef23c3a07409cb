"""Does a conversation's next turn cost only what is new? The turn shares 1,500 tokens with the last
one and adds 50; its TTFT is held against that of a prompt of 50 tokens, within 1.5 x.

Turns and short prompts alternate, each with words of its own, so that both see the same machine.
"""

import argparse
import asyncio
import random
from dataclasses import dataclass, field
from pathlib import Path

from splitpool_bench.chain import Chain
from splitpool_bench.client import Client, session
from splitpool_bench.exchange import Job, Outcome
from splitpool_bench.prompts import Vocabulary, learn
from splitpool_bench.report import Check, finish, machine, table
from splitpool_bench.script import arguments, one_chain
from splitpool_bench.stats import quantile

EXAMPLES = Path(__file__).parents[1] / "examples"
OUTPUT_TOKENS = 4


@dataclass(slots=True, kw_only=True)
class Turns:
    """TTFTs in seconds, by kind of prompt, and how many tokens of each turn were cached."""

    first: list[float] = field(default_factory=list)
    next: list[float] = field(default_factory=list)
    short: list[float] = field(default_factory=list)
    cached: list[int] = field(default_factory=list)


async def measure(chain: Chain, options: argparse.Namespace) -> Turns:
    async with session() as http:
        client = Client(http, chain.url, chain.model)
        vocabulary = await learn(client.count_tokens)
        rng = random.Random(options.seed)
        await converse(client, vocabulary, options, rng, Turns())  # warm-up, not counted
        turns = Turns()
        for _ in range(options.turns):
            await converse(client, vocabulary, options, rng, turns)
    return turns


async def converse(
    client: Client,
    vocabulary: Vocabulary,
    options: argparse.Namespace,
    rng: random.Random,
    turns: Turns,
) -> None:
    """One conversation of two turns, then a short prompt."""
    history = vocabulary.prompt(options.shared, rng)
    added = vocabulary.prompt(options.added + vocabulary.added_tokens, rng)
    short = vocabulary.prompt(options.added, rng)
    turns.first.append(ttft(await client.complete(job(history))))
    second = await client.complete(job(history + added))
    turns.next.append(ttft(second))
    turns.cached.append(second.cached_tokens)
    turns.short.append(ttft(await client.complete(job(short))))


def job(prompt: str) -> Job:
    return Job(prompt=prompt, max_tokens=OUTPUT_TOKENS, latency_class="interactive")


def ttft(outcome: Outcome) -> float:
    if outcome.failure or outcome.ttft is None:
        raise RuntimeError(f"a request failed: {outcome.failure or 'no content'}")
    return outcome.ttft


def parse() -> argparse.Namespace:
    parser = arguments(__doc__, EXAMPLES / "smollm2-shared.yaml")
    parser.add_argument("--turns", type=int, default=20, help="conversations")
    parser.add_argument("--shared", type=int, default=1500, help="tokens both turns share")
    parser.add_argument("--added", type=int, default=50, help="tokens that the second turn adds")
    return parser.parse_args()


def main() -> int:
    options = parse()
    about = machine()
    with one_chain(options.file) as chain:
        turns = asyncio.run(measure(chain, options))
    kinds = {
        f"first turn, {options.shared} tokens": turns.first,
        f"next turn, {options.added} tokens more": turns.next,
        f"{options.added} tokens alone": turns.short,
    }
    rows = [
        (name, len(v), *(f"{quantile(v, q) * 1000:.1f}" for q in (0.1, 0.5, 0.9)))
        for name, v in kinds.items()
    ]
    print(table(("prompt", "requests", "TTFT p10 ms", "p50", "p90"), rows))
    checks = [
        Check(
            name="TTFT p50, next turn / alone",
            measured=quantile(turns.next, 0.5) / quantile(turns.short, 0.5),
            limit=1.5,
        ),
        Check(
            name="cached tokens of a next turn, fewest",
            measured=min(turns.cached),
            limit=options.shared - 32,  # a block not full at the end of the history, and a margin
            at_least=True,
        ),
    ]
    details = {"ttft_seconds": kinds, "cached_tokens": turns.cached}
    return finish(checks=checks, details=details, about=about, path=options.json)


if __name__ == "__main__":
    raise SystemExit(main())
