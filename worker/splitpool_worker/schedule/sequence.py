"""What the engine is asked for, what it answers, and the state of one sequence in between."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from splitpool_worker.schedule.drafting import Guess, Lookup


class LatencyClass(StrEnum):
    INTERACTIVE = "interactive"
    BATCH = "batch"


class FinishReason(StrEnum):
    STOP = "stop"
    LENGTH = "length"
    ABORT = "abort"
    ERROR = "error"


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingParams:
    """How the next token is drawn. `seed` is always set; whoever builds a request draws one."""

    seed: int
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    """0 = off."""
    min_p: float = 0.0
    logit_bias: tuple[tuple[int, float], ...] = ()
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float = 1.0
    logprobs: int | None = None
    """None = off; 0 = the chosen token only; k = the chosen one and the k most likely ones."""
    ignore_eos: bool = False
    min_tokens: int = 0

    @property
    def greedy(self) -> bool:
        """Whether the token is simply the largest raw logit."""
        return (
            self.temperature == 0.0
            and self.logprobs is None
            and not self.logit_bias
            and self.min_tokens == 0
            and not self.penalised
        )

    @property
    def penalised(self) -> bool:
        """Whether earlier tokens change the logits."""
        return (
            self.presence_penalty != 0.0
            or self.frequency_penalty != 0.0
            or self.repetition_penalty != 1.0
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One prompt to continue. `id` is unique per attempt, `arrival` is of the engine's clock,
    `salt` keeps the prefix caches of different callers apart."""

    id: str
    cls: LatencyClass
    prompt: tuple[int, ...]
    max_tokens: int
    params: SamplingParams
    arrival: float
    stop_token_ids: frozenset[int] = frozenset()
    salt: bytes = b""
    stream: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenLogprobs:
    """Raw log-probabilities (before temperature) of the chosen token and the most likely ones."""

    token_id: int
    logprob: float
    top: tuple[tuple[int, float], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstTokenTimes:
    """Seconds from submit to first scheduled, from there to the first token, and reused tokens."""

    queue_s: float
    prefill_s: float
    cached_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenOutput:
    """One sampled token, or the end of a request without one (`token_id` None).

    A stop token is delivered, as the last output, with finish=STOP.
    """

    request_id: str
    index: int
    token_id: int | None
    logprobs: TokenLogprobs | None = None
    finish: FinishReason | None = None
    error: str | None = None
    first: FirstTokenTimes | None = None
    """On index 0 only."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """A sampled token."""

    token_id: int
    logprobs: TokenLogprobs | None = None


class Sample(NamedTuple):
    """A token to be drawn: the output of that number of a sequence."""

    sequence: "Sequence"
    output: int


@dataclass(slots=True, kw_only=True, eq=False)
class Sequence:
    """A request in the engine: its tokens, the blocks it holds and how far K/V are computed."""

    request: Request
    id: str
    submitted: float
    tokens: list[int]
    prompt_tokens: int
    greedy: bool
    blocks: list[int] = field(default_factory=list)
    computed: int = 0
    """Tokens whose K/V are in the blocks."""
    decoding: bool = False
    """Only the last sampled token is left to compute."""
    chain: list[bytes] = field(default_factory=list)
    """Digests of the full blocks known so far."""
    published: int = 0
    """Leading blocks that the prefix index has been told of."""
    orphan: bool = False
    """The client is gone but may come back."""
    preemptions: int = 0
    skipped: int = 0
    """Iterations in which admission passed this sequence over."""
    served: int = -1
    """The last step that carried one of its tokens."""
    lookup: Lookup | None = None
    """What guesses are made of, once one was asked for."""
    first_scheduled: float | None = None
    cached_tokens: int = 0

    @classmethod
    def of(cls, request: Request, submitted: float) -> "Sequence":
        return cls(
            request=request,
            id=request.id,
            submitted=submitted,
            tokens=list(request.prompt),
            prompt_tokens=len(request.prompt),
            greedy=request.params.greedy,
        )

    @property
    def outputs(self) -> int:
        return len(self.tokens) - self.prompt_tokens

    def guess(self, most: int) -> Guess | None:
        """Tokens that may be drawn next. Where earlier ones change the logits, none: each row of a
        step has to be drawn from as if those before it had been."""
        params = self.request.params
        if most < 1 or params.penalised or self.outputs < params.min_tokens:
            return None
        if self.lookup is None:
            self.lookup = Lookup()
        return self.lookup.guess(self.tokens, most)

    @property
    def left(self) -> int:
        """Tokens whose K/V are still to be computed."""
        return len(self.tokens) - self.computed

    @property
    def outstanding(self) -> int:
        """Tokens still to compute, counting those not yet sampled."""
        return self.prompt_tokens + self.request.max_tokens - self.computed
