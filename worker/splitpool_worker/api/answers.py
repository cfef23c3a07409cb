"""OpenAI response objects and stream chunks, as JSON bytes."""

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from splitpool_worker.schedule.sequence import LatencyClass, TokenLogprobs
from splitpool_worker.text.stops import Piece

_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
SERVICE_TIERS = {LatencyClass.INTERACTIVE: "default", LatencyClass.BATCH: "flex"}


def dump(value: Any) -> bytes:
    """Compact JSON on one line."""
    return _ENCODER.encode(value).encode()


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Tokens of one request."""

    prompt: int
    completion: int
    cached: int

    def body(self) -> dict[str, Any]:
        """The OpenAI usage object."""
        return {
            "prompt_tokens": self.prompt,
            "completion_tokens": self.completion,
            "total_tokens": self.prompt + self.completion,
            "prompt_tokens_details": {"cached_tokens": self.cached},
        }


@dataclass(slots=True, kw_only=True)
class Answer:
    """One choice of a request that does not stream."""

    parts: list[str] = field(default_factory=list)
    finish: str | None = None
    logprobs: list[TokenLogprobs] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "".join(self.parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Delta:
    """What one choice has gained. `tokens` and `characters` were out before it."""

    index: int
    pieces: tuple[Piece, ...]
    finish: str | None = None
    tokens: int = 0
    characters: int = 0

    @property
    def text(self) -> str:
        return "".join(piece.text for piece in self.pieces)

    @property
    def logprobs(self) -> list[TokenLogprobs]:
        return [entry for piece in self.pieces for entry in piece.logprobs]

    @property
    def tokens_after(self) -> int:
        """Tokens of the choice with this delta."""
        return self.tokens + sum(piece.tokens for piece in self.pieces)

    def joined(self, later: "Delta") -> "Delta":
        """This delta and the next one of the choice as one."""
        return replace(self, pieces=self.pieces + later.pieces, finish=later.finish)

    def without(self, received: int) -> "Delta":
        """The rest for a reader that has the text of so many tokens of the choice."""
        tokens, characters, kept = self.tokens, self.characters, list(self.pieces)
        while kept and tokens + kept[0].tokens <= received:
            tokens += kept[0].tokens
            characters += len(kept.pop(0).text)
        return replace(self, pieces=tuple(kept), tokens=tokens, characters=characters)


class Format(ABC):
    """How one request's answer looks: what all its chunks or its one object share."""

    chunk_object = ""
    object = ""

    def __init__(
        self,
        *,
        id: str,
        created: int,
        model: str,
        cls: LatencyClass,
        token_bytes: Callable[[int], bytes],
        logprobs: bool,
        usage_in_chunks: bool,
    ) -> None:
        self._shared: dict[str, Any] = {
            "id": id,
            "object": self.chunk_object,
            "created": created,
            "model": model,
            "service_tier": SERVICE_TIERS[cls],
        }
        # All chunks begin alike: that part is encoded once.
        self._beginning = dump(self._shared)[:-1] + b',"choices":'
        self._token_bytes = token_bytes
        self._logprobs = logprobs
        self._usage_in_chunks = usage_in_chunks

    def head(self, index: int) -> bytes | None:
        """What precedes the first text of a choice, if anything does."""
        return None

    def chunk(self, delta: Delta, usage: Usage | None = None) -> bytes:
        """Text of one choice, and its end."""
        return self._event([self._part(delta)], usage)

    def usage(self, usage: Usage) -> bytes:
        """The chunk without choices that ends a stream with usage."""
        return self._event([], usage)

    def whole(self, answers: Sequence[Answer], usage: Usage) -> bytes:
        """The answer of a request that does not stream."""
        choices = [self._choice(index, answer) for index, answer in enumerate(answers)]
        return dump(
            self._shared | {"object": self.object, "choices": choices, "usage": usage.body()}
        )

    def _event(self, choices: list[dict[str, Any]], usage: Usage | None) -> bytes:
        chunk = self._beginning + dump(choices)
        if usage is None and not self._usage_in_chunks:
            return chunk + b"}"
        return b'%s,"usage":%s}' % (chunk, dump(None if usage is None else usage.body()))

    @abstractmethod
    def _part(self, delta: Delta) -> dict[str, Any]: ...

    @abstractmethod
    def _choice(self, index: int, answer: Answer) -> dict[str, Any]: ...

    def _token(self, token_id: int) -> str:
        return self._token_bytes(token_id).decode("utf-8", "replace")


class ChatFormat(Format):
    """/v1/chat/completions."""

    chunk_object = "chat.completion.chunk"
    object = "chat.completion"

    def head(self, index: int) -> bytes | None:
        delta: dict[str, Any] = {"role": "assistant", "content": ""}
        return self._event(
            [{"index": index, "delta": delta, "logprobs": None, "finish_reason": None}], None
        )

    def _part(self, delta: Delta) -> dict[str, Any]:
        text, logprobs = delta.text, delta.logprobs
        return {
            "index": delta.index,
            "delta": {"content": text} if text or logprobs or not delta.finish else {},
            "logprobs": self._content_logprobs(logprobs) if logprobs else None,
            "finish_reason": delta.finish,
        }

    def _choice(self, index: int, answer: Answer) -> dict[str, Any]:
        return {
            "index": index,
            "message": {"role": "assistant", "content": answer.text, "refusal": None},
            "logprobs": self._content_logprobs(answer.logprobs) if self._logprobs else None,
            "finish_reason": answer.finish,
        }

    def _content_logprobs(self, entries: list[TokenLogprobs]) -> dict[str, Any]:
        return {"content": [self._entry(entry) for entry in entries], "refusal": None}

    def _entry(self, entry: TokenLogprobs) -> dict[str, Any]:
        chosen = self._alternative(entry.token_id, entry.logprob)
        chosen["top_logprobs"] = [self._alternative(token, value) for token, value in entry.top]
        return chosen

    def _alternative(self, token_id: int, logprob: float) -> dict[str, Any]:
        return {
            "token": self._token(token_id),
            "logprob": _finite(logprob),
            "bytes": list(self._token_bytes(token_id)),
        }


class CompletionFormat(Format):
    """/v1/completions."""

    chunk_object = "text_completion"
    object = "text_completion"

    def _part(self, delta: Delta) -> dict[str, Any]:
        logprobs = delta.logprobs
        return {
            "index": delta.index,
            "text": delta.text,
            "logprobs": self._lists(logprobs, delta.characters) if logprobs else None,
            "finish_reason": delta.finish,
        }

    def _choice(self, index: int, answer: Answer) -> dict[str, Any]:
        return {
            "index": index,
            "text": answer.text,
            "logprobs": self._lists(answer.logprobs, 0) if self._logprobs else None,
            "finish_reason": answer.finish,
        }

    def _lists(self, entries: list[TokenLogprobs], start: int) -> dict[str, Any]:
        tokens = [self._token(entry.token_id) for entry in entries]
        offsets = [start]
        for token in tokens:
            offsets.append(offsets[-1] + len(token))
        return {
            "tokens": tokens,
            "token_logprobs": [_finite(entry.logprob) for entry in entries],
            "top_logprobs": [
                {self._token(token): _finite(value) for token, value in entry.top}
                for entry in entries
            ],
            "text_offset": offsets[:-1],
        }


def _finite(logprob: float) -> float:
    """JSON has no infinity; OpenAI writes -9999 for what is impossible."""
    return max(logprob, -9999.0)
