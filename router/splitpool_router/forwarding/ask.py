"""What a completion request asks for: the few fields that routing needs, read leniently.

The worker validates; the router refuses only what it cannot route.
"""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from splitpool_router.errors import BadRequest
from splitpool_router.fleet.estimate import Estimator

# Role markers of a chat template, in bytes of text.
_MESSAGE_BYTES = 16
_PREFIX_BYTES = 4096
# Reading values takes the loop's time and a hundred times their bytes. Prompts of token ids need as
# many as the longest contexts have tokens.
MAX_VALUES = 2**20 + 2**16


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """One completion request."""

    model: str
    stream: bool
    service_tier: object
    text_bytes: int
    prompt_tokens: int  # of prompts that came as token ids
    max_tokens: int | None
    copies: int
    n: int
    prefix: bytes

    def prompt_estimate(self, estimator: Estimator) -> int:
        """Prompt tokens, by the learned ratio where the prompt is text."""
        text = estimator.tokens(self.text_bytes) if self.text_bytes else 0
        return max(text + self.prompt_tokens, 1)

    def cost(self, estimator: Estimator, *, max_model_len: int | None) -> int:
        """Tokens that the request may hold in a worker at most."""
        answer = estimator.answer_tokens if self.max_tokens is None else self.max_tokens
        cost = self.prompt_estimate(estimator) + self.copies * answer
        return cost if max_model_len is None else min(cost, self.copies * max_model_len)


def parse(body: bytes) -> Ask:
    """The request in a body; raises BadRequest naming the field."""
    fields = _object(body)
    model = fields.get("model")
    if not isinstance(model, str) or not model:
        raise BadRequest("the field `model` is required and must be a string", param="model")
    prompts = _prompts(fields)
    n = _positive(fields.get("n")) or 1
    limit = fields.get("max_completion_tokens")
    if limit is None:
        limit = fields.get("max_tokens")
    return Ask(
        model=model,
        stream=fields.get("stream") is True,
        service_tier=fields.get("service_tier"),
        text_bytes=sum(_size(text) for text in _texts(fields)),
        prompt_tokens=sum(len(prompt) for prompt in prompts if not isinstance(prompt, str)),
        max_tokens=_positive(limit),
        copies=n * max(len(prompts), 1),
        n=n,
        prefix=_prefix(fields),
    )


def model_of(body: bytes) -> str:
    """The `model` of a body of another route; raises BadRequest."""
    model = _object(body).get("model")
    if not isinstance(model, str) or not model:
        raise BadRequest("the field `model` is required and must be a string", param="model")
    return model


def _object(body: bytes) -> dict[str, Any]:
    _refuse_endless(body)
    try:
        fields = json.loads(body.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise BadRequest(f"the body is not UTF-8 (byte {error.start})") from None
    except RecursionError:
        raise BadRequest("the body is nested too deeply") from None
    except json.JSONDecodeError as error:
        raise BadRequest(f"the body is not JSON: {error}") from None
    except ValueError:  # Python reads no longer ones: the time is quadratic
        raise BadRequest("the body has an integer of thousands of digits: shorten it") from None
    if not isinstance(fields, dict):
        raise BadRequest("the body must be a JSON object")
    return fields


def _refuse_endless(body: bytes) -> None:
    """Every value stands behind a comma or an opening bracket: counting these is quick."""
    if len(body) <= MAX_VALUES:
        return
    marks = sum(body.count(mark) for mark in (b",", b"[", b"{"))
    if marks > MAX_VALUES:
        raise BadRequest(
            f"the body has {marks} commas and opening brackets, which may be as many values:"
            f" at most {MAX_VALUES} are read; send less at once"
        )


def _positive(value: object) -> int | None:
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return value
    return None


def _prompts(fields: dict[str, Any]) -> list[str | list[Any]]:
    """The prompts of a completion: one or several, each a text or a list of token ids."""
    prompt = fields.get("prompt")
    if isinstance(prompt, str):
        return [prompt]
    if not isinstance(prompt, list) or not prompt:
        return []
    if isinstance(prompt[0], int):
        return [prompt]
    return [item for item in prompt if isinstance(item, (str, list))]


def _texts(fields: dict[str, Any]) -> Iterator[str]:
    """Every string that ends up in a prompt."""
    yield from _strings(fields.get("prompt"))
    yield from _strings(fields.get("tools"))
    messages = fields.get("messages")
    for message in messages if isinstance(messages, list) else ():
        if isinstance(message, dict):
            yield " " * _MESSAGE_BYTES
            yield from _strings(message.get("content"))
            yield from _strings(message.get("tool_calls"))


def _strings(value: object) -> Iterator[str]:
    """All strings below a JSON value (its depth is bounded by the parser)."""
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, str):
            yield item
        elif isinstance(item, list):
            stack.extend(part for part in reversed(item) if not isinstance(part, int))
        elif isinstance(item, dict):
            stack.extend(reversed(list(item.values())))


def _size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def _prefix(fields: dict[str, Any]) -> bytes:
    """A hash of what the next turn of the same conversation shares with this one."""
    digest = hashlib.blake2b(digest_size=16)
    left = _PREFIX_BYTES
    for text in _opening(fields):
        part = text[:left]
        digest.update(part.encode("utf-8", "surrogatepass"))
        left -= len(part)
        if left <= 0:
            break
    return digest.digest()


def _opening(fields: dict[str, Any]) -> Iterator[str]:
    """The text up to the first user message and with it, or the start of a prompt."""
    yield from (text[:512] for text in _strings(fields.get("prompt")))
    yield from (str(ids[:128]) for ids in _prompts(fields)[:1] if isinstance(ids, list))
    messages = fields.get("messages")
    for message in messages if isinstance(messages, list) else ():
        if not isinstance(message, dict):
            continue
        yield from _strings(message.get("content"))
        if message.get("role") == "user":
            return
