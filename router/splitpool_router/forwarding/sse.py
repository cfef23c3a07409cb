"""What of a worker's event stream goes to the client: whole events, without the timing line.

Two scanners over chunks of bytes: `FirstContent` reads lines until the first token has come,
`Borders` then only looks for the ends of events.
"""

import json
import re

_TIMING = b": splitpool-timing"
_HELD_LIMIT = 2**20

# With the newline before it: text inside JSON cannot hold one.
_DONE = b"\ndata: [DONE]"
_ERROR = b'\ndata: {"error":'
_USAGE = re.compile(rb'"(prompt_tokens|completion_tokens)":\s*(\d+)')


class Borders:
    """Passes whole events on, so that an event of the router's own can follow at any time."""

    __slots__ = ("_held",)

    def __init__(self) -> None:
        self._held = b""

    def feed(self, chunk: bytes) -> bytes:
        """What may be written now; comments pass alone, a torn event waits for its rest."""
        if not self._held and chunk.endswith(b"\n\n"):
            return chunk
        data = self._held + chunk
        cut = data.rfind(b"\n\n") + 2
        rest = data if cut == 1 else data[cut:]
        if len(rest) > _HELD_LIMIT or _only_comments(rest):
            self._held = b""
            return data
        self._held = rest
        return b"" if cut == 1 else data[:cut]


class FirstContent:
    """Finds the first event that carries a token, and takes the worker's times out before it."""

    __slots__ = ("_held", "_timed", "found", "times")

    def __init__(self) -> None:
        self._held = b""
        self._timed = False
        self.found = False
        self.times: dict[str, float] | None = None

    def feed(self, chunk: bytes) -> bytes:
        """The chunk without timing lines; `found` once the first content is in what came out."""
        if self.found:
            return chunk
        data = self._held + chunk
        self._held = b""
        out: list[bytes] = []
        start = 0
        while not self.found:
            end = data.find(b"\n", start)
            if end < 0:
                return self._hold(out, data[start:])
            line = data[start : end + 1]
            start = end + 1
            if self._keep(line):
                out.append(line)
        out.append(data[start:])
        return b"".join(out)

    def _hold(self, out: list[bytes], rest: bytes) -> bytes:
        if len(rest) > _HELD_LIMIT:
            out.append(rest)
        else:
            self._held = rest
        return b"".join(out)

    def _keep(self, line: bytes) -> bool:
        if line.startswith(_TIMING):
            self.times = timing_line(line)
            self._timed = True
            return False
        if line.startswith(b"data:"):
            self.found = self._timed or carries_token(line[5:])
        return True


def timing_line(line: bytes) -> dict[str, float]:
    """The seconds of `: splitpool-timing queue=0.0123 prefill=...`."""
    times: dict[str, float] = {}
    for word in line[len(_TIMING) :].decode("ascii", "replace").split():
        name, _, value = word.partition("=")
        try:
            times[name] = max(float(value), 0.0)
        except ValueError:
            continue
    return times


def carries_token(data: bytes) -> bool:
    """Whether an event's data is the first token's, rather than a role or an error."""
    try:
        event = json.loads(data)
    except ValueError:
        return False
    choices = event.get("choices") if isinstance(event, dict) else None
    return isinstance(choices, list) and any(_has_token(choice) for choice in choices)


def _has_token(choice: object) -> bool:
    if not isinstance(choice, dict):
        return False
    if choice.get("text") or choice.get("finish_reason"):
        return True
    delta = choice.get("delta")
    named = ("content", "reasoning_content", "reasoning", "tool_calls", "refusal")
    return isinstance(delta, dict) and any(delta.get(name) for name in named)


def ended(tail: bytes) -> bool:
    """Whether a stream's last bytes hold its proper end: `[DONE]` or an error event."""
    return _DONE in b"\n" + tail or failed(tail)


def failed(tail: bytes) -> bool:
    """Whether the stream ended with an error event."""
    return _ERROR in b"\n" + tail


def usage(tail: bytes) -> dict[str, int]:
    """The token counts in the last bytes of an answer (quotes inside content are escaped)."""
    return {name.decode(): int(count) for name, count in _USAGE.findall(tail)}


def _only_comments(rest: bytes) -> bool:
    if not rest:
        return True
    return rest.endswith(b"\n") and all(line.startswith(b":") for line in rest.splitlines())
