"""The worker's HTTP application: routes, who may use them, and errors as OpenAI objects."""

import hmac
import logging
from collections.abc import Awaitable, Callable

from aiohttp import web

from splitpool_worker.api import routes_generate, routes_state, routes_streams
from splitpool_worker.api.answers import dump
from splitpool_worker.api.errors import ApiError
from splitpool_worker.api.headers import request_id_of
from splitpool_worker.api.service import SERVICE, Service

log = logging.getLogger(__name__)

MAX_BODY_BYTES = 32 * 1024 * 1024
_PROTECTED = ("/v1/", "/tokenize", "/internal/")
_CODES = {404: "not_found", 405: "method_not_allowed", 413: "body_too_large"}

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def application(service: Service) -> web.Application:
    """The application over one worker's parts."""
    app = web.Application(client_max_size=MAX_BODY_BYTES, middlewares=[errors, authorised])
    app[SERVICE] = service
    app.router.add_get("/health", routes_state.health)
    app.router.add_get("/ready", routes_state.ready)
    app.router.add_get("/metrics", routes_state.metrics)
    app.router.add_get("/v1/models", routes_state.models)
    app.router.add_post("/tokenize", routes_state.tokenize)
    app.router.add_put("/internal/yield", routes_state.put_yield)
    app.router.add_post("/v1/chat/completions", routes_generate.chat)
    app.router.add_post("/v1/completions", routes_generate.completions)
    app.router.add_get("/v1/streams/{id}", routes_streams.read, allow_head=False)
    app.router.add_delete("/v1/streams/{id}", routes_streams.delete)
    return app


@web.middleware
async def errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Every error is an OpenAI error object."""
    try:
        return await handler(request)
    except ApiError as error:
        return _refusal(request, error)
    except web.HTTPException as error:
        if error.status < 400:
            raise
        return _refusal(request, _from_http(error), dict(error.headers))
    except web.RequestPayloadError:
        text = (
            "The body's bytes are not what its headers say: send it plain, with a Content-Length."
        )
        return _refusal(request, ApiError(400, "invalid_body", text), {"Connection": "close"})
    except ConnectionResetError:
        raise
    except Exception:
        log.exception("request failed")
        return _refusal(request, ApiError(500, "internal_error", "The worker failed."))


@web.middleware
async def authorised(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Only the router knows the token, where there is one."""
    token = request.app[SERVICE].config.internal_token
    if token is not None and request.path.startswith(_PROTECTED):
        given = request.headers.get("X-Splitpool-Token", "")
        if not hmac.compare_digest(given.encode(), token.encode()):
            raise ApiError(
                401, "invalid_token", "X-Splitpool-Token is missing or wrong: ask the router."
            )
    return await handler(request)


def _refusal(
    request: web.Request, error: ApiError, extra: dict[str, str] | None = None
) -> web.Response:
    allow = {name: value for name, value in (extra or {}).items() if name == "Allow"}
    return web.Response(
        status=error.status,
        body=dump(error.body()),
        content_type="application/json",
        headers=error.headers() | allow | {"X-Request-Id": request_id_of(request)},
    )


def _from_http(error: web.HTTPException) -> ApiError:
    code = _CODES.get(error.status, "invalid_request")
    if error.status == 413:
        limit = MAX_BODY_BYTES // (1024 * 1024)
        return ApiError(413, code, f"The body is larger than {limit} MiB; send less at once.")
    return ApiError(error.status, code, error.reason)
