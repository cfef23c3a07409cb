"""Why a worker ends before it serves: an exit code, a name for programs, words for people."""

from collections.abc import Iterator
from contextlib import contextmanager

from splitpool_worker.checkpoint.fetch import NotFetched
from splitpool_worker.checkpoint.inspect import BadModelLength
from splitpool_worker.checkpoint.weights import ModelNotFound, ModelUnreadable
from splitpool_worker.config import ConfigError
from splitpool_worker.vram import QuotaTooSmall

BAD_ARGUMENTS, TOO_SMALL, NO_MODEL, NOT_FETCHED, OUTPUT_LOST = 2, 3, 4, 5, 6

_KNOWN: tuple[tuple[type[Exception], int, str], ...] = (
    (ConfigError, BAD_ARGUMENTS, "bad_arguments"),
    (BadModelLength, BAD_ARGUMENTS, "bad_model_length"),
    (QuotaTooSmall, TOO_SMALL, "quota_too_small"),
    (ModelNotFound, NO_MODEL, "model_not_found"),
    (ModelUnreadable, NO_MODEL, "model_unreadable"),
    (NotFetched, NOT_FETCHED, "model_not_fetched"),
)


class Refused(Exception):
    """The worker cannot start like this."""

    def __init__(self, code: int, name: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.name = name


@contextmanager
def refusing() -> Iterator[None]:
    """Errors whose words say enough become Refused."""
    try:
        yield
    except tuple(kind for kind, _, _ in _KNOWN) as error:
        code, name = next((c, n) for kind, c, n in _KNOWN if isinstance(error, kind))
        raise Refused(code, name, str(error)) from error
