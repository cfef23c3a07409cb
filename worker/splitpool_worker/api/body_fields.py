"""Fields of request bodies that come in several shapes: checked, bounded, made one shape."""

from typing import Any

from pydantic_core import PydanticCustomError

MAX_STOPS = 16
MAX_STOP_CHARACTERS = 256
MAX_LOGIT_BIAS = 1024
MAX_LOGPROBS = 20
MAX_CHOICES = 128
MAX_STOP_TOKEN_IDS = 128
COMPLETE = "complete"  # type of the errors whose words need no value beside them


def _too_many(what: str, count: int, limit: int) -> PydanticCustomError:
    return PydanticCustomError(
        COMPLETE,
        "has {count} {what}, at most {limit} are allowed",
        {"count": count, "what": what, "limit": limit},
    )


def stops(value: Any) -> Any:
    """One stop string or several, bounded in number and length, as a list."""
    found = [value] if isinstance(value, str) else value
    if not isinstance(found, list) or not all(isinstance(stop, str) for stop in found):
        raise PydanticCustomError(COMPLETE, "must be a string or a list of strings")
    if len(found) > MAX_STOPS:
        raise _too_many("stop strings", len(found), MAX_STOPS)
    if any(len(stop) > MAX_STOP_CHARACTERS for stop in found):
        longest = max(len(stop) for stop in found)
        raise _too_many("characters in one string", longest, MAX_STOP_CHARACTERS)
    if "" in found:
        raise PydanticCustomError(COMPLETE, "must not contain the empty string")
    return found


def logit_bias(value: Any) -> Any:
    """Biases by token id; JSON spells the ids as strings."""
    if not isinstance(value, dict):
        raise PydanticCustomError(COMPLETE, "must be an object of token ids and biases")
    if len(value) > MAX_LOGIT_BIAS:
        raise _too_many("entries", len(value), MAX_LOGIT_BIAS)
    try:
        biases = {int(token): float(bias) for token, bias in value.items()}
    except (TypeError, ValueError, OverflowError):
        raise PydanticCustomError(COMPLETE, "must map token ids to numbers") from None
    if any(not -100 <= bias <= 100 for bias in biases.values()):
        raise PydanticCustomError(COMPLETE, "must have biases between -100 and 100")
    return biases


def content(value: Any) -> Any:
    """A message's text, also out of a list of text parts."""
    if not isinstance(value, list):
        return value
    return "\n".join(_text_part(part) for part in value)


def _text_part(part: Any) -> str:
    kind = part.get("type") if isinstance(part, dict) else None
    if kind != "text" or not isinstance(part.get("text"), str):
        raise PydanticCustomError(
            COMPLETE, "has a part of type {kind}: this model reads text parts only", {"kind": kind}
        )
    return str(part["text"])


def prompts(value: Any) -> Any:
    """One prompt or several, each text or token ids, as a list of prompts."""
    if isinstance(value, str):
        return [value]
    if not isinstance(value, list) or not value:
        raise PydanticCustomError(
            COMPLETE, "must be a string, a list of strings, token ids or a list of token id lists"
        )
    found = [value] if _is_ids(value) else value
    if len(found) > MAX_CHOICES:
        raise _too_many("prompts", len(found), MAX_CHOICES)
    if not all(isinstance(prompt, str) for prompt in found) and not all(map(_is_ids, found)):
        raise PydanticCustomError(COMPLETE, "must hold strings only, or lists of token ids only")
    return found


def _is_ids(value: Any) -> bool:
    return isinstance(value, list) and all(type(token) is int for token in value)
