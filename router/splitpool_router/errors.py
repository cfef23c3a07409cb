"""What the router refuses, with which status and code, and what a client may do about it."""

import json
from collections.abc import Mapping
from typing import ClassVar

from splitpool_serving.error_object import error_object


class HttpError(Exception):
    """A refusal that is answered as an OpenAI error object."""

    status: ClassVar[int] = 500
    code: ClassVar[str] = "internal_error"

    def __init__(
        self,
        message: str,
        *,
        param: str | None = None,
        retry_after: int | None = None,
        curable: bool = True,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.param = param
        self.retry_after = retry_after
        self.curable = curable
        self.extra_headers = dict(headers or {})

    def headers(self) -> dict[str, str]:
        """Retry-After where waiting helps, `x-should-retry: false` where nothing does."""
        headers = dict(self.extra_headers)
        if self.retry_after is not None:
            headers["Retry-After"] = str(self.retry_after)
        if not self.curable:
            headers["x-should-retry"] = "false"
        return headers

    def body(self) -> bytes:
        """The error object as JSON."""
        return _error_body(self.status, code=self.code, message=self.message, param=self.param)


class BadRequest(HttpError):
    """The request cannot be understood."""

    status = 400
    code = "invalid_request"


class Unauthorized(HttpError):
    """API keys are configured and the request carries none of them."""

    status = 401
    code = "invalid_api_key"


class ModelNotFound(HttpError):
    """No pool's spec serves that model (in that class)."""

    status = 404
    code = "model_not_found"


class RouteNotFound(HttpError):
    """No such path."""

    status = 404
    code = "not_found"


class StreamNotFound(HttpError):
    """The stream is unknown, expired or another caller's."""

    status = 404
    code = "stream_not_found"


class StreamLost(HttpError):
    """The worker that held the stream is gone, and the stream with it."""

    status = 404
    code = "worker_lost"


class MethodNotAllowed(HttpError):
    """The path exists, but not with this method."""

    status = 405
    code = "method_not_allowed"


class RequestTimeout(HttpError):
    """The body did not arrive in time."""

    status = 408
    code = "request_timeout"


class DuplicateRequest(HttpError):
    """A resumable request with the same id of the same caller is still live."""

    status = 409
    code = "duplicate_request_id"


class BodyTooLarge(HttpError):
    """The body exceeds the limit."""

    status = 413
    code = "body_too_large"


class QueueFull(HttpError):
    """Capacity exists, but as many tokens as the class may hold wait or run already."""

    status = 429
    code = "queue_full"


class QueueTimeout(HttpError):
    """Capacity exists, but the request waited for it as long as its class may."""

    status = 429
    code = "queue_timeout"


class WorkerUnreachable(HttpError):
    """The worker broke before it answered."""

    status = 502
    code = "worker_unreachable"


class WorkerBroke(HttpError):
    """The worker died while it answered, before the client was sent anything."""

    status = 502
    code = "worker_lost"


class NoReadyWorker(HttpError):
    """No worker of the class is ready, and none became so in time."""

    status = 503
    code = "no_ready_worker"


class ShuttingDown(HttpError):
    """The router drains."""

    status = 503
    code = "shutting_down"


class WorkerTimeout(HttpError):
    """The worker did not start to answer in time."""

    status = 504
    code = "worker_timeout"


def error_event(message: str, *, code: str) -> bytes:
    """The SSE event that ends a broken stream in the place of `[DONE]`."""
    return b"data: " + _error_body(500, code=code, message=message, param=None) + b"\n\n"


def _error_body(status: int, *, code: str, message: str, param: str | None) -> bytes:
    return json.dumps(error_object(status, code=code, message=message, param=param)).encode()
