"""The part of the OpenAI API that is measured, over an engine that has no server of its own.

Runs in the environment of a peer: it imports nothing of this project. Prompts are texts, answers
are greedy and of the length that was asked for.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from typing import Any, Protocol, TypeAlias

from aiohttp import web

Answer: TypeAlias = "asyncio.Queue[list[int] | None]"
"""New token ids as they come; None ends it."""


class Engine(Protocol):
    """What runs the model."""

    def encode(self, text: str) -> list[int]:
        """Ids of a text, without any that mark its start."""

    def decode(self, ids: list[int]) -> str:
        """The text of some ids."""

    def add(self, ids: list[int], tokens: int) -> Answer:
        """Start an answer of exactly so many tokens."""

    async def run(self) -> None:
        """Work until the server ends."""


class Api:
    """The routes."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def completions(self, request: web.Request) -> web.StreamResponse:
        """A streamed completion, or a whole one."""
        body = await request.json()
        ids = self._engine.encode(body["prompt"])
        answer = self._engine.add(ids, int(body["max_tokens"]))
        if not body.get("stream"):
            said = [one async for new in _whole(answer) for one in new]
            return web.json_response(self._event(said) | _usage(len(ids), len(said)))
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        count = 0
        async for new in _whole(answer):
            count += len(new)
            await _send(response, self._event(new))
        await _send(response, {"choices": []} | _usage(len(ids), count))
        await response.write(b"data: [DONE]\n\n")
        return response

    async def tokenize(self, request: web.Request) -> web.Response:
        """How many tokens a text has."""
        return web.json_response(
            {"count": len(self._engine.encode((await request.json())["prompt"]))}
        )

    async def models(self, _: web.Request) -> web.Response:
        """The only model; that it answers says that it is ready."""
        return web.json_response({"data": [{"id": "m"}]})

    def _event(self, ids: list[int]) -> dict[str, Any]:
        """Each has some text, so that its arrival counts."""
        text = self._engine.decode(ids) or " "
        return {"choices": [{"index": 0, "text": text, "finish_reason": None}]}


async def serve(engine: Engine, port: int) -> None:
    """On loopback, until the process is ended."""
    api = Api(engine)
    app = web.Application()
    app.router.add_post("/v1/completions", api.completions)
    app.router.add_post("/tokenize", api.tokenize)
    app.router.add_get("/v1/models", api.models)
    app.router.add_get("/health", api.models)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    await engine.run()


def _usage(asked: int, answered: int) -> dict[str, Any]:
    return {"usage": {"prompt_tokens": asked, "completion_tokens": answered}}


async def _whole(answer: Answer) -> AsyncIterator[list[int]]:
    while (new := await answer.get()) is not None:
        yield new


async def _send(response: web.StreamResponse, event: Mapping[str, Any]) -> None:
    await response.write(b"data: " + json.dumps(event).encode() + b"\n\n")
