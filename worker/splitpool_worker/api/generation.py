"""One request's life: sampled tokens become text, events or one answer, and usage; or it fails."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from splitpool_worker.api.answers import Delta, Usage
from splitpool_worker.api.delivery import Delivery
from splitpool_worker.api.errors import ApiError, shutting_down
from splitpool_worker.engine.engine import Engine
from splitpool_worker.schedule.sequence import FinishReason, Request, TokenOutput
from splitpool_worker.text.output import AnswerText
from splitpool_worker.text.stops import Piece

log = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True)
class Timings:
    """Seconds that this worker spent on a request until its first text was out.

    `detokenise` begins with the first token and ends with text: a character that is not whole, or
    what may begin a stop string, is held back over further tokens.
    """

    parse: float = 0.0
    tokenise: float = 0.0
    queue: float = 0.0
    prefill: float = 0.0
    detokenise: float = 0.0

    def parts(self) -> dict[str, float]:
        """By the names that the router reads."""
        return {
            "parse": self.parse,
            "tokenise": self.tokenise,
            "queue": self.queue,
            "prefill": self.prefill,
            "detokenise": self.detokenise,
        }


class Sink(Protocol):
    """Where a generation's text goes."""

    def delta(self, generation: "Generation", delta: Delta) -> None: ...

    def done(self, generation: "Generation") -> None: ...

    def failed(self, error: ApiError) -> None: ...


class Observer(Protocol):
    """Who measures tokens and requests."""

    def first_token(self, generation: "Generation", choice: "Choice", now: float) -> None: ...

    def next_token(self, choice: "Choice", gap: float) -> None: ...

    def finished(
        self, generation: "Generation", choice: "Choice", reason: str, now: float
    ) -> None: ...


@dataclass(slots=True, kw_only=True)
class Choice:
    """One of the answers: its request in the engine and its text so far."""

    index: int
    request: Request
    text: AnswerText
    first_of_prompt: bool = True
    tokens: int = 0
    cached: int = 0
    sent_tokens: int = 0
    sent_characters: int = 0
    first_at: float = 0.0
    last_at: float = 0.0
    finish: str | None = None

    def take(self, output: TokenOutput) -> list[Piece]:
        """The text that is final with this output; sets `finish` at the end."""
        if output.token_id is not None:
            self.tokens += 1
        if output.finish is FinishReason.STOP:
            self.text.count_silent()
            self.finish = "stop"
            return self.text.finish()
        pieces = self._push(output)
        if self.text.stopped_by is None and output.finish is FinishReason.LENGTH:
            self.finish = "length"
            pieces += self.text.finish()
        if self.text.stopped_by is not None:
            self.finish = "stop"
        return pieces

    def _push(self, output: TokenOutput) -> list[Piece]:
        if output.token_id is None:
            return []
        return self.text.push(output.token_id, output.logprobs)

    def gain(self, pieces: Sequence[Piece]) -> Delta:
        """The pieces as a delta that knows where it stands in the choice."""
        delta = Delta(
            index=self.index,
            pieces=tuple(pieces),
            finish=self.finish,
            tokens=self.sent_tokens,
            characters=self.sent_characters,
        )
        self.sent_tokens = delta.tokens_after
        self.sent_characters += len(delta.text)
        return delta


@dataclass(slots=True, kw_only=True, eq=False)
class Generation:
    """All choices of one HTTP request. Runs on the event loop."""

    choices: tuple[Choice, ...]
    prompt_tokens: int
    arrival: float
    timings: Timings
    sink: Sink
    observer: Observer
    engine: Engine
    delivery: Delivery
    clock: Callable[[], float]
    on_end: Callable[["Generation"], None]
    ended: bool = False
    started: bool = False
    _by_id: dict[str, Choice] = field(default_factory=dict)

    def start(self) -> None:
        """Submit every choice to the engine. Raises NeverFits; then none is left there."""
        for choice in self.choices:
            self._by_id[choice.request.id] = choice
            self.delivery.expect(choice.request.id, self)
        try:
            for choice in self.choices:
                self.engine.submit(choice.request)
        except BaseException:
            self._stop()
            raise

    @property
    def usage(self) -> Usage:
        """Tokens so far."""
        return Usage(
            prompt=self.prompt_tokens,
            completion=sum(choice.tokens for choice in self.choices),
            cached=sum(choice.cached for choice in self.choices if choice.first_of_prompt),
        )

    def deliver(self, output: TokenOutput, now: float) -> None:
        """One output of the engine."""
        choice = self._by_id[output.request_id]
        if output.finish in (FinishReason.ERROR, FinishReason.ABORT):
            self.fail(_failure(output))
            return
        self._measure(choice, output, now)
        pieces = choice.take(output)
        if choice.finish is not None:
            self._finish(choice, output, now)
        if pieces or choice.finish:
            if not self.started:
                self.timings.detokenise = self.clock() - choice.first_at
            self.started = True
            self.sink.delta(self, choice.gain(pieces))
        if all(choice.finish for choice in self.choices):
            self._end()
            self.sink.done(self)

    def broke(self, error: Exception) -> None:
        """This request cannot go on."""
        self.fail(ApiError(500, "internal_error", "The worker failed on this request."))

    def fail(self, error: ApiError) -> None:
        """End with an error, once."""
        if not self.ended:
            self.abort("error" if error.status >= 500 else "abort")
            self.sink.failed(error)

    def abort(self, reason: str = "abort") -> None:
        """Stop: the engine frees the blocks within one step. Idempotent."""
        if self.ended:
            return
        now = self.clock()
        for choice in self.choices:
            if choice.finish is None:
                self.observer.finished(self, choice, reason, now)
        self._stop()

    def set_orphan(self, orphan: bool) -> None:
        """The client left, or is back."""
        for choice in self.choices:
            if choice.finish is None and not self.ended:
                self.engine.set_orphan(choice.request.id, orphan)

    def _measure(self, choice: Choice, output: TokenOutput, now: float) -> None:
        if output.first is not None:
            choice.cached = output.first.cached_tokens
            choice.first_at = now
            self.timings.queue = output.first.queue_s
            self.timings.prefill = output.first.prefill_s
            self.observer.first_token(self, choice, now)
        else:
            self.observer.next_token(choice, now - choice.last_at)
        choice.last_at = now

    def _finish(self, choice: Choice, output: TokenOutput, now: float) -> None:
        self.delivery.forget(choice.request.id)
        if output.finish is None:  # ended by a stop string, which the engine does not know
            self.engine.abort(choice.request.id)
        self.observer.finished(self, choice, choice.finish or "", now)

    def _stop(self) -> None:
        for choice in self.choices:
            if choice.finish is None:
                self.engine.abort(choice.request.id)
        self._end()

    def _end(self) -> None:
        self.ended = True
        for choice in self.choices:
            self.delivery.forget(choice.request.id)
        self.on_end(self)


def _failure(output: TokenOutput) -> ApiError:
    if output.finish is FinishReason.ABORT:
        return shutting_down()
    log.error("engine failed a request: %s", output.error)
    return ApiError(500, "engine_error", f"The engine failed on this request: {output.error}")
