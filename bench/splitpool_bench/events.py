"""What a streamed answer said and when: the bytes of an event stream and their times of arrival."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any


class EventSplitter:
    """Cuts arriving bytes into the `data` of whole events; comments and ids carry no tokens.

    Lines may end with LF or with CRLF, as servers differ.
    """

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, chunk: bytes) -> list[bytes]:
        *events, self._rest = (self._rest + chunk).replace(b"\r\n", b"\n").split(b"\n\n")
        return [data for event in events if (data := _data(event))]


@dataclass(slots=True, kw_only=True)
class Transcript:
    """Everything that is counted in one streamed answer."""

    content_times: list[float] = field(default_factory=list)
    text: list[str] = field(default_factory=list)
    usage: dict[str, Any] | None = None
    finish_reason: str | None = None
    error: str | None = None
    done: bool = False


def transcribe(arrivals: Iterable[tuple[float, bytes]]) -> Transcript:
    """Read (time, bytes) chunks, once the answer has ended, so that parsing delays no clock."""
    transcript = Transcript()
    for at, data in _timed_events(arrivals):
        if data == b"[DONE]":
            transcript.done = True
        else:
            _note(transcript, at, _parsed(data))
    return transcript


def _parsed(data: bytes) -> dict[str, Any]:
    """An event's object; what is none becomes an error event, since it carries no token."""
    try:
        event = json.loads(data)
    except ValueError:
        event = None
    return event if isinstance(event, dict) else {"error": {"code": "unreadable event"}}


def _timed_events(arrivals: Iterable[tuple[float, bytes]]) -> Iterator[tuple[float, bytes]]:
    splitter = EventSplitter()
    for at, chunk in arrivals:
        for data in splitter.feed(chunk):
            yield at, data


def _note(transcript: Transcript, at: float, event: dict[str, Any]) -> None:
    if error := event.get("error"):
        named = error if isinstance(error, dict) else {"message": error}
        transcript.error = str(named.get("code") or named.get("message"))
    if usage := event.get("usage"):
        transcript.usage = usage
    for choice in event.get("choices", ()):
        transcript.finish_reason = choice.get("finish_reason") or transcript.finish_reason
        if text := _text(choice):
            transcript.content_times.append(at)
            transcript.text.append(text)


def _text(choice: dict[str, Any]) -> str:
    """Text of a completion or a chat chunk; a chunk that only names the role has none.

    What a model thinks aloud (`reasoning_content`) is made of tokens like any other.
    """
    delta = choice.get("delta") or {}
    return choice.get("text") or delta.get("content") or delta.get("reasoning_content") or ""


def _data(event: bytes) -> bytes:
    lines = (line for line in event.split(b"\n") if line.startswith(b"data:"))
    return b"\n".join(line[5:].removeprefix(b" ") for line in lines)
