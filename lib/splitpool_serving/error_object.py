"""What stands in the body of a refusal? An error object, with the types that OpenAI's own have."""

from typing import Any


def error_object(status: int, *, code: str, message: str, param: str | None) -> dict[str, Any]:
    """The body, the same in an answer of this status and in an event of a stream."""
    error = {"message": message, "type": _type(status), "param": param, "code": code}
    return {"error": error}


def _type(status: int) -> str:
    if status == 429:
        return "rate_limit_error"
    return "invalid_request_error" if status < 500 else "server_error"
