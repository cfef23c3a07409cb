"""What is varied, on which requests? Pure: numbers in, settings and arrivals out."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf

CONTEXT = 2048


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One way to run the engine."""

    label: str
    static: bool = False
    max_batch: int = 16
    token_budget: int = 256
    max_wait_ms: int = 30
    chunk: int = 128
    length_ratio: float = 4.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """One request: when it comes, in seconds since the start, and its lengths in tokens."""

    at: float
    prompt: int
    output: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """One knob: its settings, and the requests that all of them get."""

    name: str
    title: str
    question: str
    settings: Sequence[Setting]
    load: str
    rate: float | None = None
    """Arrivals a second (Poisson), or None where all come at once."""


def asks(sweep: Sweep, count: int, seed: int) -> list[Ask]:
    """The same for every setting of a sweep."""
    rng = random.Random(seed)
    at = 0.0
    made = []
    for number in range(count):
        if sweep.rate is not None:
            at += rng.expovariate(sweep.rate)
        if sweep.load == "long prompts":
            prompt, output = (768, 8) if number % 4 == 3 else (rng.randint(16, 64), 48)
        else:
            prompt, output = rng.randint(16, 128), rng.randint(8, 96)
        made.append(Ask(at=at, prompt=prompt, output=output))
    return made


def sweeps(rate: float) -> list[Sweep]:
    """All of them; rate: arrivals a second that leave the engine idle now and then."""
    base = Setting(label="")
    mixed = "prompts of 16-128 tokens, answers of 8-96"
    return [
        Sweep(
            name="mode",
            title="Static and continuous batching",
            question="What does it cost to wait for a batch's longest answer?",
            settings=[
                replace(base, label="static", static=True),
                replace(base, label="static, no ratio", static=True, length_ratio=inf),
                replace(base, label="continuous"),
            ],
            load=mixed,
        ),
        Sweep(
            name="batch",
            title="Batch size (`maxBatch`)",
            question="How many sequences should share a step?",
            settings=[replace(base, label=str(n), max_batch=n) for n in (1, 4, 8, 16, 32)],
            load=mixed,
        ),
        Sweep(
            name="budget",
            title="Token budget of a step (`tokenBudget`)",
            question="How much prefill may one step take in beside those who decode?",
            settings=[replace(base, label=str(n), token_budget=n) for n in (32, 64, 128, 256, 512)],
            load="long prompts",
        ),
        Sweep(
            name="chunk",
            title="Prefill chunk (`prefillChunk`)",
            question="In which pieces should one long prompt be read?",
            settings=[replace(base, label=str(n), chunk=n) for n in (16, 32, 64, 128, 256)],
            load="long prompts",
        ),
        Sweep(
            name="wait",
            title="Gathering (`maxWaitMs`)",
            question="How long may a newcomer wait for others, so that fewer steps are disturbed?",
            settings=[replace(base, label=f"{n} ms", max_wait_ms=n) for n in (0, 30, 300)],
            load=mixed,
            rate=rate,
        ),
        Sweep(
            name="ratio",
            title="Length ratio (`maxLengthRatio`), mixed lengths",
            question="Should sequences of a batch be of similar length?",
            settings=[
                replace(base, label=f"{kind}, {name}", static=kind == "static", length_ratio=ratio)
                for kind in ("static", "continuous")
                for name, ratio in (("ratio 4", 4.0), ("none", inf))
            ],
            load=mixed,
        ),
    ]
