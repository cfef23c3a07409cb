"""The bytes of server-sent events.

A comment ends with one newline, never with a blank line: clients that keep the last event id would
take the blank line for an event without data.
"""

from collections.abc import Mapping

PING = b": ping\n"


def event(seq: int, data: bytes) -> bytes:
    """Event `seq` with one line of JSON."""
    return b"id: %d\ndata: %s\n\n" % (seq, data)


def done(seq: int) -> bytes:
    """The last event of a stream that succeeded."""
    return event(seq, b"[DONE]")


def error(data: bytes) -> bytes:
    """The end of a stream that failed: it takes no number, and no [DONE] follows."""
    return b"data: %s\n\n" % data


def timing(seconds: Mapping[str, float]) -> bytes:
    """The worker's own times of one request, for the router to read and remove."""
    parts = " ".join(f"{name}={value:.6f}" for name, value in seconds.items())
    return f": splitpool-timing {parts}\n".encode()


def server_timing(seconds: Mapping[str, float]) -> str:
    """The same times as the value of a `Server-Timing` header (milliseconds)."""
    return ", ".join(f"{name};dur={value * 1000:.3f}" for name, value in seconds.items())
