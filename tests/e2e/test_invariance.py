"""A greedy request gives the same tokens alone, in company, with a prefix hit, on any topology."""

import asyncio
import uuid
from typing import Any

import aiohttp

from e2e.asking import ask, completion
from e2e.gap_rule import Greedy, assert_same
from splitpool_bench.chain import Chain, steps

TOKENS = 8
BEGINNINGS = (
    "The capital of France is",
    "Water boils when",
    "In the year 1969, people",
    "def add(a, b):\n    return",
    "The opposite of hot is",
    "My grandmother used to bake",
    "To open the file, first",
    "The largest planet of the solar system",
    "Roses are red, violets",
    "She closed the door because",
)
LONG = " ".join(f"Chapter {n}: the ship sailed on past the islands." for n in range(12))
HISTORIES = tuple(f"{LONG} {beginning}" for beginning in BEGINNINGS)

Http = aiohttp.ClientSession
CLASSES = ("interactive", "batch")


async def greedy(
    http: Http, chain: Chain, prompt: str, latency_class: str, tokens: int = TOKENS
) -> dict[str, Any]:
    body = completion(chain, prompt, max_tokens=tokens, logprobs=2)
    status, answer = await ask(http, chain, body, {"X-Splitpool-Class": latency_class})
    assert status == 200, answer
    return answer


async def one_by_one(http: Http, chain: Chain, latency_class: str) -> list[Greedy]:
    answers = [await greedy(http, chain, prompt, latency_class) for prompt in BEGINNINGS]
    return [Greedy.of(answer) for answer in answers]


async def test_alone_and_in_company(http: Http, split: Chain) -> None:
    alone = await one_by_one(http, split, "batch")

    together = await asyncio.gather(
        *(greedy(http, split, prompt, "batch") for prompt in BEGINNINGS + BEGINNINGS)
    )

    answers = [Greedy.of(answer) for answer in together]
    assert_same(alone, answers[: len(BEGINNINGS)])
    assert_same(alone, answers[len(BEGINNINGS) :])


async def test_with_and_without_a_prefix_hit(http: Http, split: Chain) -> None:
    cold = [await as_a_stranger(http, split, prompt) for prompt in HISTORIES]
    await greedy(http, split, LONG, "interactive")

    warm = [await greedy(http, split, prompt, "interactive") for prompt in HISTORIES]

    assert [cached(answer) for answer in cold] == [0] * len(cold)
    assert all(cached(answer) > 100 for answer in warm)
    assert_same([Greedy.of(answer) for answer in cold], [Greedy.of(answer) for answer in warm])


async def as_a_stranger(http: Http, chain: Chain, prompt: str) -> dict[str, Any]:
    """A caller of its own has a prefix cache of its own: nothing is in it."""
    body = completion(chain, prompt, max_tokens=TOKENS, logprobs=2)
    headers = {"X-Splitpool-Class": "interactive", "Authorization": f"Bearer {uuid.uuid4()}"}
    status, answer = await ask(http, chain, body, headers)
    assert status == 200, answer
    return answer


def cached(answer: dict[str, Any]) -> int:
    return int(answer["usage"]["prompt_tokens_details"]["cached_tokens"])


async def test_split_and_shared_and_both_classes(http: Http, split: Chain, shared: Chain) -> None:
    expected = await one_by_one(http, split, "interactive")

    for chain in (split, shared):
        for latency_class in CLASSES:
            assert_same(expected, await one_by_one(http, chain, latency_class))


async def test_int8_alone_in_company_of_both_classes_and_with_a_prefix_hit(
    http: Http, int8: Chain
) -> None:
    alone = await one_by_one(http, int8, "interactive")
    together = await asyncio.gather(
        *(greedy(http, int8, prompt, cls) for cls in CLASSES for prompt in BEGINNINGS)
    )
    answers = [Greedy.of(answer) for answer in together]
    assert answers == alone * 2  # sums of int8 are exact, in whatever order

    cold = [await as_a_stranger(http, int8, prompt) for prompt in HISTORIES]
    await greedy(http, int8, LONG, "interactive")
    warm = [await greedy(http, int8, prompt, "interactive") for prompt in HISTORIES]
    assert all(cached(answer) > 100 for answer in warm)
    assert_same([Greedy.of(answer) for answer in cold], [Greedy.of(answer) for answer in warm])


async def test_guessed_tokens_change_no_answer(http: Http, shared: Chain, unguessed: Chain) -> None:
    for prompt in BEGINNINGS:
        plain, guessed = [
            await greedy(http, chain, prompt, "interactive", tokens=60)
            for chain in (unguessed, shared)
        ]
        assert guessed["choices"] == plain["choices"]
    assert sum(step["accepted_tokens"] for step in interactive_steps(shared)) > 0
    assert not any(step["draft_tokens"] for step in interactive_steps(unguessed))


def interactive_steps(chain: Chain) -> list[dict[str, Any]]:
    """Of the chain's one worker."""
    (worker,) = chain.workers()
    return [step["classes"]["interactive"] for step in steps(chain, worker.name)]
