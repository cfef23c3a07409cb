"""What an OpenAI request body asks for, or why it cannot be served.

Unknown fields are ignored, as OpenAI-compatible servers do; known ones that would change the answer
and are not supported here are refused rather than ignored.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic_core import from_json

from splitpool_worker.api import body_fields
from splitpool_worker.api.errors import ApiError, invalid
from splitpool_worker.schedule.sequence import SamplingParams

DEFAULT_COMPLETION_TOKENS = 16  # as OpenAI's /v1/completions


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One request, its prompts still text (or ids), everything else checked."""

    chat: bool
    model: str
    messages: tuple[dict[str, str], ...] = ()
    prompts: tuple[str | tuple[int, ...], ...] = ()
    max_tokens: int | None
    n: int
    seed: int | None
    sampling: SamplingParams  # its seed is replaced, choice by choice
    stop: tuple[str, ...]
    stop_token_ids: frozenset[int]
    stream: bool
    include_usage: bool
    continuous_usage: bool
    service_tier: str | None

    @property
    def choices(self) -> int:
        """Answers wanted, over all prompts."""
        return self.n * (1 if self.chat else len(self.prompts))

    def limit(self, room: int) -> int:
        """Most tokens of one answer where there is room for so many."""
        if self.max_tokens is not None:
            return self.max_tokens
        return room if self.chat else min(room, DEFAULT_COMPLETION_TOKENS)


def parse_chat(body: bytes) -> Call:
    """A body of /v1/chat/completions. Raises ApiError."""
    return _validate(ChatBody, _json_object(body)).call()


def parse_completion(body: bytes) -> Call:
    """A body of /v1/completions. Raises ApiError."""
    return _validate(CompletionBody, _json_object(body)).call()


def parse_tokenize(body: bytes) -> "TokenizeBody":
    """A body of /tokenize. Raises ApiError."""
    parsed = _validate(TokenizeBody, _json_object(body))
    if (parsed.prompt is None) == (parsed.messages is None):
        raise invalid("prompt", "give either prompt (a text) or messages (a chat), not both")
    return parsed


def parse_yield(body: bytes) -> "YieldBody":
    """A body of /internal/yield. Raises ApiError."""
    return _validate(YieldBody, _json_object(body))


B = TypeVar("B", bound="_Body")


class _Body(BaseModel):
    model_config = ConfigDict(strict=True, extra="ignore")


class Message(_Body):
    role: Literal["system", "developer", "user", "assistant"]
    content: Annotated[str, BeforeValidator(body_fields.content)]

    def plain(self) -> dict[str, str]:
        """As a chat template expects it; `developer` is the newer name of `system`."""
        role = "system" if self.role == "developer" else self.role
        return {"role": role, "content": self.content}


class StreamOptions(_Body):
    include_usage: bool = False
    continuous_usage_stats: bool = False


class _Generation(_Body):
    """The fields that both bodies share."""

    model: str = Field(max_length=256)
    max_tokens: int | None = Field(default=None, ge=1)
    n: int = Field(default=1, ge=1, le=body_fields.MAX_CHOICES)
    temperature: float = Field(default=1.0, ge=0, le=2)
    top_p: float = Field(default=1.0, gt=0, le=1)
    top_k: int = Field(default=0, ge=-1)
    min_p: float = Field(default=0.0, ge=0, le=1)
    seed: int | None = Field(default=None, ge=-(2**63), lt=2**64)
    stop: Annotated[list[str], BeforeValidator(body_fields.stops)] = []
    stop_token_ids: list[int] = Field(default=[], max_length=body_fields.MAX_STOP_TOKEN_IDS)
    logit_bias: Annotated[dict[int, float], BeforeValidator(body_fields.logit_bias)] = {}
    presence_penalty: float = Field(default=0.0, ge=-2, le=2)
    frequency_penalty: float = Field(default=0.0, ge=-2, le=2)
    repetition_penalty: float = Field(default=1.0, ge=0.01, le=10)
    ignore_eos: bool = False
    min_tokens: int = Field(default=0, ge=0)
    stream: bool = False
    stream_options: StreamOptions = StreamOptions()
    service_tier: str | None = None

    def limit(self) -> int | None:
        """Most tokens of one answer; None: what room is left."""
        return self.max_tokens

    def sampling(self, logprobs: int | None) -> SamplingParams:
        """How tokens are drawn."""
        return SamplingParams(
            seed=0,
            temperature=self.temperature,
            top_p=self.top_p,
            top_k=max(self.top_k, 0),
            min_p=self.min_p,
            logit_bias=tuple(self.logit_bias.items()),
            presence_penalty=self.presence_penalty,
            frequency_penalty=self.frequency_penalty,
            repetition_penalty=self.repetition_penalty,
            logprobs=logprobs,
            ignore_eos=self.ignore_eos,
            min_tokens=self.min_tokens,
        )

    def shared(self, logprobs: int | None) -> dict[str, Any]:
        """The fields of a Call that do not depend on the kind of body."""
        self._check_combinations()
        return {
            "model": self.model,
            "max_tokens": self.limit(),
            "n": self.n,
            "seed": self.seed,
            "sampling": self.sampling(logprobs),
            "stop": tuple(self.stop),
            "stop_token_ids": frozenset(self.stop_token_ids),
            "stream": self.stream,
            "include_usage": self.stream and self.stream_options.include_usage,
            "continuous_usage": self.stream and self.stream_options.continuous_usage_stats,
            "service_tier": self.service_tier,
        }

    def _check_combinations(self) -> None:
        limit = self.limit()
        if limit is not None and self.min_tokens > limit:
            raise invalid(
                "min_tokens", f"min_tokens is {self.min_tokens}: at most max_tokens, {limit}"
            )
        if not self.stream and "stream_options" in self.model_fields_set:
            raise invalid("stream_options", "stream_options is only allowed with stream: true")


class ChatBody(_Generation):
    messages: list[Message] = Field(min_length=1)
    max_completion_tokens: int | None = Field(default=None, ge=1)
    logprobs: bool = False
    top_logprobs: int = Field(default=0, ge=0, le=body_fields.MAX_LOGPROBS)

    def limit(self) -> int | None:
        return self.max_completion_tokens or self.max_tokens

    def call(self) -> Call:
        """What is asked for."""
        if self.top_logprobs and not self.logprobs:
            raise invalid("top_logprobs", "top_logprobs is only allowed with logprobs: true")
        return Call(
            chat=True,
            messages=tuple(message.plain() for message in self.messages),
            **self.shared(self.top_logprobs if self.logprobs else None),
        )


class CompletionBody(_Generation):
    prompt: Annotated[list[str] | list[list[int]], BeforeValidator(body_fields.prompts)]
    logprobs: int | None = Field(default=None, ge=0, le=body_fields.MAX_LOGPROBS)

    def call(self) -> Call:
        """What is asked for."""
        choices = self.n * len(self.prompt)
        if choices > body_fields.MAX_CHOICES:
            raise invalid(
                "n",
                f"n is {self.n} for {len(self.prompt)} prompts, {choices} answers: "
                f"at most {body_fields.MAX_CHOICES} in one request; send several",
            )
        prompts = tuple(p if isinstance(p, str) else tuple(p) for p in self.prompt)
        return Call(chat=False, prompts=prompts, **self.shared(self.logprobs))


class TokenizeBody(_Body):
    model: str | None = None
    prompt: str | None = None
    messages: list[Message] | None = None
    add_special_tokens: bool = True


class YieldBody(_Body):
    token_budget: int = Field(alias="tokenBudget", ge=1)
    ttl_ms: int = Field(alias="ttlMs", ge=0, le=60_000)


# Fields that would change the answer, with the values that do not.
_UNSUPPORTED: Mapping[str, tuple[Any, ...]] = {
    "tools": ([],),
    "tool_choice": ("none", "auto"),
    "functions": ([],),
    "function_call": ("none", "auto"),
    "response_format": ({"type": "text"},),
    "modalities": (["text"],),
    "audio": (),
    "web_search_options": (),
    "echo": (False,),
    "suffix": ("",),
    "best_of": (1,),
    "use_beam_search": (False,),
    "prompt_embeds": (),
    "prompt_logprobs": (),
    "truncate_prompt_tokens": (),
    "include_stop_str_in_output": (False,),
    "skip_special_tokens": (True,),
    "allowed_token_ids": (),
    "bad_words": ([],),
    "logits_processors": ([],),
    "structured_outputs": (),
    "guided_json": (),
    "guided_regex": (),
    "guided_choice": (),
    "guided_grammar": (),
    "chat_template": (),
    "chat_template_kwargs": ({},),
    "add_generation_prompt": (True,),
    "continue_final_message": (False,),
    "documents": ([],),
}


def _json_object(body: bytes) -> dict[str, Any]:
    try:
        value = from_json(body, allow_inf_nan=False)
    except ValueError as error:
        raise invalid(None, f"the body is not valid JSON: {error}", "invalid_json") from error
    if not isinstance(value, dict):
        raise invalid(None, "the body must be a JSON object", "invalid_json")
    return {name: field for name, field in value.items() if field is not None}


def _validate(model: type[B], fields: dict[str, Any]) -> B:
    for name in fields.keys() & _UNSUPPORTED.keys():
        if fields[name] not in _UNSUPPORTED[name]:
            raise invalid(
                name,
                f"{name} is {_shown(fields[name])}: not supported here; leave it out",
                "unsupported_parameter",
            )
    try:
        return model.model_validate(fields)
    except ValidationError as error:
        raise _first_error(error) from error


def _first_error(error: ValidationError) -> ApiError:
    first = error.errors(include_url=False)[0]
    where = [str(part) for part in first["loc"] if not _is_union_branch(part)]
    param = ".".join(where)
    if first["type"] == "missing":
        return invalid(param, f"{param} is missing: it is required", "missing_required_parameter")
    limit = re.sub(r"^\w+ should (be|have)", r"must \1", first["msg"])
    if first["type"] == body_fields.COMPLETE:
        return invalid(param, f"{param} {limit}")
    return invalid(param, f"{param} is {_shown(first['input'])}: {limit}")


def _is_union_branch(part: int | str) -> bool:
    return isinstance(part, str) and part.startswith(("list[", "function-"))


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
