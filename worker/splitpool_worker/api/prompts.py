"""Prompts as token ids that fit the model; long ones are tokenised off the event loop."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from splitpool_worker.api.errors import ApiError, invalid
from splitpool_worker.api.protocol import Call
from splitpool_worker.text.tokenizer import NoChatTemplate, TemplateRefused, TextModel

# A text of this size takes the tokenizer about two milliseconds: the loop can spare that.
INLINE_CHARACTERS = 8192
# A tokenizer takes about eighty times the bytes of its text: one long text at a time.
_LONG = ThreadPoolExecutor(max_workers=1, thread_name_prefix="tokenizer")

Messages = Sequence[Mapping[str, str]]


async def tokenize_text(
    text: TextModel, prompt: str, limit: int, *, special: bool = True
) -> list[int]:
    """Token ids of a text. Raises ApiError, also where it has `limit` tokens or more for sure."""
    await _refuse_hopeless(text, [prompt], limit, where="prompt")
    return await _sized(len(prompt), lambda: text.encode(prompt, special=special))


async def tokenize_chat(text: TextModel, messages: Messages, limit: int) -> list[int]:
    """Token ids of a chat. Raises ApiError, also where it has `limit` tokens or more for sure."""
    await _refuse_hopeless(text, [m["content"] for m in messages], limit, where="messages")
    size = sum(len(message["content"]) for message in messages)
    try:
        return await _sized(size, lambda: text.encode_chat(messages))
    except NoChatTemplate as error:
        raise invalid("messages", "this model has no chat template: use /v1/completions") from error
    except TemplateRefused as error:
        raise invalid(
            "messages", f"the model's chat template refuses these messages: {error}"
        ) from error


async def fitting_prompts(text: TextModel, call: Call, limit: int) -> list[tuple[int, ...]]:
    """All prompts of a call as token ids, each with room for its answer. Raises ApiError."""
    if call.chat:
        return [_fitting(await tokenize_chat(text, call.messages, limit), text, call, limit)]
    return [
        _fitting(await _prompt(text, prompt, limit), text, call, limit) for prompt in call.prompts
    ]


async def _prompt(text: TextModel, prompt: str | tuple[int, ...], limit: int) -> Sequence[int]:
    if not isinstance(prompt, str):
        return prompt
    return await tokenize_text(text, prompt, limit)


async def _sized(characters: int, encode: Callable[[], list[int]]) -> list[int]:
    if characters <= INLINE_CHARACTERS:
        return encode()
    return await asyncio.get_running_loop().run_in_executor(_LONG, encode)


async def _refuse_hopeless(
    text: TextModel, texts: Sequence[str], limit: int, *, where: str
) -> None:
    """Megabytes of text need no tokenizer to be seen not to fit. Raises ApiError."""
    characters = sum(map(len, texts))
    tokens = text.at_least(characters)
    if tokens >= limit and text.normalises:
        loop = asyncio.get_running_loop()
        tokens = await loop.run_in_executor(_LONG, text.at_least_of, texts, limit)
    if tokens >= limit:
        raise _too_long(where, f"at least {tokens}", limit)


def _fitting(ids: Sequence[int], text: TextModel, call: Call, limit: int) -> tuple[int, ...]:
    if not ids:
        raise invalid(_where(call), f"{_where(call)} is empty: it must have at least one token")
    if len(ids) >= limit:
        raise _too_long(_where(call), str(len(ids)), limit)
    if len(ids) + call.limit(limit - len(ids)) > limit:
        raise invalid(
            "max_tokens",
            f"the prompt has {len(ids)} tokens and max_tokens is {call.max_tokens}: together "
            f"at most {limit} fit; ask for at most {limit - len(ids)}",
            "context_length_exceeded",
        )
    wrong = next((token for token in ids if not 0 <= token < text.vocab_size), None)
    if wrong is not None:
        raise invalid(
            "prompt", f"prompt has token id {wrong}: ids go from 0 to {text.vocab_size - 1}"
        )
    return tuple(ids)


def _too_long(where: str, tokens: str, limit: int) -> ApiError:
    return invalid(
        where,
        f"{where} has {tokens} tokens: prompt and answer together have at most {limit} here, so "
        "that no room is left for an answer; shorten it",
        "context_length_exceeded",
    )


def _where(call: Call) -> str:
    return "messages" if call.chat else "prompt"
