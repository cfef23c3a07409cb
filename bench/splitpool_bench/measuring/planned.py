"""Which requests does a measurement send, and when? Drawn from a seed before the first is sent."""

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from splitpool_bench.exchange import Job
from splitpool_bench.prompts import Vocabulary


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """So many tokens, uniform from `low` to `high`, both included."""

    low: int
    high: int

    def __post_init__(self) -> None:
        if not 1 <= self.low <= self.high:
            raise ValueError(f"{self} tokens: a range starts at 1 or more and does not go back")

    def __str__(self) -> str:
        return f"{self.low}" if self.low == self.high else f"{self.low}-{self.high}"

    def draw(self, rng: random.Random) -> int:
        """One length."""
        return rng.randint(self.low, self.high)


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """One request: its start in seconds from the first moment, its lengths, its class."""

    at: float
    prompt_tokens: int
    output_tokens: int
    latency_class: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Mix:
    """What kinds of requests arrive; `other_share` of them are of the other class."""

    latency_class: str
    prompt: Range
    output: Range
    other_share: float = 0.0
    other_class: str = "batch"
    other_prompt: Range
    other_output: Range

    def planned(self, offsets: Iterable[float], seed: int) -> list[Planned]:
        """A request for every start; a seed gives the same ones."""
        rng = random.Random(seed)
        return [self._one(at, rng) for at in offsets]

    def others(self, count: int, seed: int) -> list[Planned]:
        """Requests of the other class alone, with no start of their own."""
        rng = random.Random(seed)
        return [self._other(0.0, rng) for _ in range(count)]

    def _one(self, at: float, rng: random.Random) -> Planned:
        if rng.random() < self.other_share:
            return self._other(at, rng)
        return Planned(
            at=at,
            prompt_tokens=self.prompt.draw(rng),
            output_tokens=self.output.draw(rng),
            latency_class=self.latency_class,
        )

    def _other(self, at: float, rng: random.Random) -> Planned:
        return Planned(
            at=at,
            prompt_tokens=self.other_prompt.draw(rng),
            output_tokens=self.other_output.draw(rng),
            latency_class=self.other_class,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Writer:
    """Makes the prompts of planned requests."""

    vocabulary: Vocabulary
    shared_prefix: int = 0
    """Tokens that all prompts begin with."""
    ignore_eos: bool = True

    def jobs(self, planned: Sequence[Planned], words: str) -> list[Job]:
        """The same lengths under another seed of words are other prompts: no cache knows them.

        Raises ValueError where a prompt is too short for what the tokenizer adds.
        """
        prefix = self.vocabulary.words_of(self.shared_prefix, random.Random(0))
        rng = random.Random(words)
        return [self._job(each, prefix, rng) for each in planned]

    def _job(self, planned: Planned, prefix: str, rng: random.Random) -> Job:
        rest = planned.prompt_tokens - self.shared_prefix
        return Job(
            prompt=prefix + self.vocabulary.prompt(rest, rng),
            max_tokens=planned.output_tokens,
            latency_class=planned.latency_class,
            ignore_eos=self.ignore_eos,
            prompt_tokens=planned.prompt_tokens,
        )
