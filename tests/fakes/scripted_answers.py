"""What does a fake worker answer? A script's tokens, as numbered events or in one piece."""

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

PARTS = ("parse", "tokenise", "queue", "prefill", "detokenise")


# Waits where a script says so; told how many events there are.
Hold = Callable[[int], Awaitable[None]]


@dataclass(slots=True, kw_only=True)
class Script:
    """How the worker behaves from now on."""

    tokens: Sequence[str] = ("one", " two", " three", " four")
    delays: dict[str, float] = field(default_factory=dict)  # by part, slept and declared
    undeclared_delay: float = 0.0  # slept before the first content, in no part
    timing: bool = True
    status: int | None = None  # answered before any work
    status_headers: dict[str, str] = field(default_factory=dict)
    reset_after_reading: bool = False
    never_answer: bool = False
    die_after_events: int | None = None  # counted with the role event
    torn_event: bool = False  # dies inside the event that follows
    end_without_done: bool = False
    ping_before_first: int = 0
    hold_after_events: int | None = None  # waits there for `release`
    padding: int = 0  # bytes added to each token
    usage: tuple[int, int] = (7, 4)


class Generation:
    """One running answer: its events so far, and whether it was stopped."""

    def __init__(self, *, id_: str, request_id: str, caller: str, resumable: bool) -> None:
        self.id = id_
        self.request_id = request_id
        self.caller = caller
        self.resumable = resumable
        self.events: list[bytes] = []
        self.done = False
        self.changed = asyncio.Event()
        self.task: asyncio.Task[None] | None = None

    def add(self, event: bytes) -> None:
        """One more event."""
        self.events.append(event)
        self._wake()

    def finish(self) -> None:
        """Nothing more will come."""
        self.done = True
        self._wake()

    async def after(self, start: int) -> AsyncIterator[bytes]:
        """The events from number `start` on, as they come."""
        for index in itertools.count(start):
            while index >= len(self.events) and not self.done:
                await self.changed.wait()
            if index >= len(self.events):
                return
            yield self.events[index]

    def _wake(self) -> None:
        self.changed.set()
        self.changed = asyncio.Event()


async def whole(script: Script, model: str, hold: Hold) -> tuple[dict[str, Any], dict[str, str]]:
    """One answer and its headers."""
    for part in PARTS:
        await asyncio.sleep(script.delays.get(part, 0.0))
    await hold(0)
    text = "".join(script.tokens) + "x" * script.padding
    reply = {
        "object": "chat.completion",
        "model": model,
        "choices": [{"index": 0, "message": {"role": "assistant", "content": text}}],
        "usage": _usage(script),
    }
    timing = ", ".join(f"{p};dur={script.delays.get(p, 0.0) * 1000}" for p in PARTS)
    return reply, {"Server-Timing": timing}


async def generate(generation: Generation, script: Script, hold: Hold) -> None:
    """All events of a stream, one after the other."""
    number = itertools.count()
    role = {"role": "assistant", "content": ""}
    generation.add(_event(next(number), {"choices": [{"index": 0, "delta": role}]}))
    await hold(1)
    lead = b": ping\n" * script.ping_before_first
    for part in ("queue", "prefill", "detokenise"):
        await asyncio.sleep(script.delays.get(part, 0.0))
    await asyncio.sleep(script.undeclared_delay)
    if script.timing:
        times = " ".join(f"{part}={script.delays.get(part, 0.0):.6f}" for part in PARTS)
        lead += f": splitpool-timing {times}\n".encode()
    for index, token in enumerate(script.tokens):
        content = token + "x" * script.padding
        delta = {"choices": [{"index": 0, "delta": {"content": content}}]}
        generation.add(lead + _event(next(number), delta))
        lead = b""
        await hold(index + 2)
    last = {
        "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}],
        "usage": _usage(script),
    }
    generation.add(_event(next(number), last))
    if not script.end_without_done:
        generation.add(f"id: {next(number)}\ndata: [DONE]\n\n".encode())


def _usage(script: Script) -> dict[str, int]:
    prompt, answer = script.usage
    return {"prompt_tokens": prompt, "completion_tokens": answer}


def _event(number: int, data: dict[str, Any]) -> bytes:
    return f"id: {number}\ndata: {json.dumps(data)}\n\n".encode()
