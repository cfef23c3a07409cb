"""Routes about the worker itself: alive, ready, models, metrics, tokenize, yield."""

from typing import Any

from aiohttp import web

from splitpool_worker.api import protocol
from splitpool_worker.api.prompts import tokenize_chat, tokenize_text
from splitpool_worker.api.service import SERVICE

METRICS_TYPE = {"Content-Type": "text/plain; version=0.0.4; charset=utf-8"}


async def health(request: web.Request) -> web.Response:
    """200 as long as the event loop lives."""
    return web.json_response({"status": "ok"})


async def ready(request: web.Request) -> web.Response:
    """Whether this worker may take traffic, and what it has and holds."""
    service = request.app[SERVICE]
    return web.json_response(service.state(), status=200 if service.is_ready else 503)


async def models(request: web.Request) -> web.Response:
    """The one model served here."""
    service = request.app[SERVICE]
    model = {
        "id": service.config.model_name,
        "object": "model",
        "created": 0,
        "owned_by": "splitpool",
        "max_model_len": service.max_model_len,
    }
    return web.json_response({"object": "list", "data": [model]})


async def metrics(request: web.Request) -> web.Response:
    """Prometheus text."""
    service = request.app[SERVICE]
    text = service.metrics.render(service.engine.load(), service.streams.bytes)
    return web.Response(body=text, headers=METRICS_TYPE)


async def tokenize(request: web.Request) -> web.Response:
    """Token ids and their number of a text or of chat messages."""
    service = request.app[SERVICE]
    body, _ = await service.bodies.read(request, protocol.parse_tokenize, service.clock)
    text, limit = service.text, service.max_model_len
    if body.messages is not None:
        ids = await tokenize_chat(text, [message.plain() for message in body.messages], limit)
    else:
        special = body.add_special_tokens
        ids = await tokenize_text(text, body.prompt or "", limit, special=special)
    answer: dict[str, Any] = {
        "tokens": ids,
        "count": len(ids),
        "max_model_len": service.max_model_len,
    }
    return web.json_response(answer)


async def put_yield(request: web.Request) -> web.Response:
    """Cap the batch class's tokens per step for a while; it lapses by itself."""
    body = protocol.parse_yield(await request.read())
    request.app[SERVICE].engine.set_yield(body.token_budget, body.ttl_ms / 1000)
    return web.Response(status=204)
