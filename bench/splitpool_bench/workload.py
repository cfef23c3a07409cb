"""Which jobs a load consists of: a class, a range of prompt lengths, an output length."""

import random
from collections.abc import Iterator
from dataclasses import dataclass

from splitpool_bench.exchange import Job
from splitpool_bench.prompts import Vocabulary, lengths


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """Prompts of `low`..`high` tokens, each answered with `output` tokens."""

    latency_class: str
    low: int
    high: int
    output: int

    def jobs(self, vocabulary: Vocabulary, seed: int) -> Iterator[Job]:
        """Jobs without end; no two prompts share more than a few words."""
        rng = random.Random(seed)
        while True:
            (length,) = lengths(self.low, self.high, 1, rng)
            yield Job(
                prompt=vocabulary.prompt(length, rng),
                max_tokens=self.output,
                latency_class=self.latency_class,
            )
