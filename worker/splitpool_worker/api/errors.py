"""What a caller is told when it is refused: an HTTP status and an OpenAI error object."""

from typing import Any

from splitpool_serving.error_object import error_object


class ApiError(Exception):
    """An answer that is an error; the edge turns it into a response."""

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        param: str | None = None,
        retry_after: int | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.param = param
        self.retry_after = retry_after

    def body(self) -> dict[str, Any]:
        """The OpenAI error object; the same in a response and in an event of a stream."""
        return error_object(self.status, code=self.code, message=self.message, param=self.param)

    def headers(self) -> dict[str, str]:
        """Tell clients whether a repeat can help: SDKs retry 409 and 5xx by themselves."""
        if self.retry_after is not None:
            return {"Retry-After": str(self.retry_after)}
        return {"x-should-retry": "false"} if self.status < 500 else {}


def invalid(param: str | None, message: str, code: str = "invalid_value") -> ApiError:
    """A request whose parameter `param` cannot be served as it is."""
    return ApiError(400, code, message, param=param)


def shutting_down() -> ApiError:
    """This worker finishes what it has and takes nothing new."""
    return ApiError(
        503, "shutting_down", "This worker is shutting down; send the request again.", retry_after=1
    )


def engine_failed() -> ApiError:
    """The engine thread is gone; this worker is about to end."""
    return ApiError(500, "engine_failed", "The engine of this worker has failed.")


def reader_too_slow() -> ApiError:
    """Events fell out of the ring before the only reader took them."""
    return ApiError(410, "events_expired", "Events were dropped before they were read.")


def stream_deleted() -> ApiError:
    """A DELETE came while somebody was reading."""
    return ApiError(400, "stream_deleted", "The stream was stopped by its caller.")
