"""A small OpenAI-compatible server for whoever measures one; it answers at once."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web
from aiohttp.test_utils import TestServer


@dataclass(slots=True, kw_only=True)
class OpenAiServer:
    """Its fields say how it behaves; `asked` holds the bodies of its completions."""

    models: tuple[str, ...] = ("tiny",)
    tokenizer: bool = True
    usage: bool = True
    tokens_per_event: int = 1
    newline: bytes = b"\n"
    knows_ignore_eos: bool = True
    chats_only: bool = False
    key: str | None = None
    fail_after: int | None = None
    """Completions from this one on are refused."""
    hold_after: int | None = None
    """Completions from this one on never get beyond their first token."""
    asked: list[dict[str, Any]] = field(default_factory=list)
    url: str = ""
    held: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when one is held."""

    @asynccontextmanager
    async def running(self) -> AsyncIterator["OpenAiServer"]:
        """Listens on loopback while the block runs."""
        app = web.Application(client_max_size=2**24)
        app.router.add_get("/v1/models", self._models)
        app.router.add_post("/tokenize", self._tokenize)
        app.router.add_post("/v1/completions", self._complete)
        app.router.add_post("/v1/chat/completions", self._complete)
        async with TestServer(app, handler_cancellation=True) as server:
            self.url = str(server.make_url("/")).rstrip("/")
            yield self

    async def _models(self, request: web.Request) -> web.Response:
        if self.key and request.headers.get("Authorization") != f"Bearer {self.key}":
            return _refusal(401, "wrong key")
        return web.json_response({"data": [{"id": name} for name in self.models]})

    async def _tokenize(self, request: web.Request) -> web.Response:
        if not self.tokenizer:
            return _refusal(404, "no such route")
        return web.json_response({"count": _count(await request.json())})

    async def _complete(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        if (refusal := self._refusal(request, body)) is not None:
            return refusal
        held = self.hold_after is not None and len(self.asked) >= self.hold_after
        self.asked.append(body)
        usage = {"prompt_tokens": _count(body), "completion_tokens": body["max_tokens"]}
        if not body["stream"]:
            return web.json_response({"usage": usage} if self.usage else {})
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        chat = "chat" in request.path
        for first in range(0, body["max_tokens"], self.tokens_per_event):
            text = "a" * min(self.tokens_per_event, body["max_tokens"] - first)
            content = {"delta": {"content": text}} if chat else {"text": text}
            await self._write(response, json.dumps({"choices": [{"index": 0, **content}]}))
            if held:
                self.held.set()
                await asyncio.Event().wait()
        if self.usage:
            await self._write(response, json.dumps({"choices": [], "usage": usage}))
        await self._write(response, "[DONE]")
        return response

    def _refusal(self, request: web.Request, body: dict[str, Any]) -> web.Response | None:
        if self.chats_only and "chat" not in request.path:
            return _refusal(404, "no such route")
        if not self.knows_ignore_eos and "ignore_eos" in body:
            return _refusal(400, "Unrecognized request argument supplied: ignore_eos")
        if self.fail_after is not None and len(self.asked) >= self.fail_after:
            return _refusal(429, "the queue is full")
        return None

    async def _write(self, response: web.StreamResponse, data: str) -> None:
        await response.write(b"data: " + data.encode() + 2 * self.newline)


def _count(body: dict[str, Any]) -> int:
    """A word is a token, and so is the beginning of a text."""
    text = body.get("prompt") or body["messages"][0]["content"]
    return 1 + len(text.split())


def _refusal(status: int, message: str) -> web.Response:
    return web.json_response({"error": {"message": message}}, status=status)
