"""A worker without a model: what proxies and routers ask of one, and tokens at a set pace.

`python -m splitpool_bench.proxying.upstream --port N`. It is a raw protocol, so that it takes
little of the machine from the proxy that is measured. The streams of a group get their tokens at
one moment, as the sequences of one step do.
"""

import argparse
import asyncio
import itertools
import json
import secrets
from collections.abc import Iterator
from typing import Any, cast

from splitpool_serving import event_loop

MODEL = "paced"
# Room for everything: nothing ever waits for a place.
_ROOM = 2**40
_HEAD = (
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-cache\r\n"
    "X-Splitpool-Stream-Id: {id}\r\nTransfer-Encoding: chunked\r\n\r\n"
)
_TIMING = b": splitpool-timing parse=0.0001 tokenise=0.0001 queue=0 prefill=0.0001 detokenise=0\n"
_STREAM_KEY = secrets.token_hex(4)


def event(number: int, delta: dict[str, Any], finish: str | None = None) -> bytes:
    """An event as our worker writes them."""
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
    data = {
        "id": "chatcmpl-" + "0" * 32,
        "object": "chat.completion.chunk",
        "created": 1_800_000_000,
        "model": MODEL,
        "choices": [choice],
    }
    return b"id: %d\ndata: %s\n\n" % (number, json.dumps(data, separators=(",", ":")).encode())


_ROLE = event(0, {"role": "assistant", "content": ""})
_FIRST = _TIMING + event(1, {"content": " the"})
_TOKEN = event(2, {"content": " word"}).removeprefix(b"id: 2")
_END = event(9, {}, "stop") + b"id: 10\ndata: [DONE]\n\n"


class Groups:
    """The streams that run: a group's tokens come together, `pace` times a second."""

    def __init__(self, *, size: int, pace: float) -> None:
        self._size = size
        self._period = 1 / pace
        self._groups: list[dict[Stream, int]] = []

    @property
    def running(self) -> int:
        """Streams whose client is there."""
        return sum(len(group) for group in self._groups)

    def join(self, stream: "Stream", tokens: int) -> None:
        """So many more tokens for a stream, with the others of its group."""
        for group in self._groups:
            if len(group) < self._size:
                group[stream] = tokens
                return
        group = {stream: tokens}
        self._groups.append(group)
        asyncio.get_running_loop().call_later(self._period, self._step, group)

    def leave(self, stream: "Stream") -> None:
        """Its client is gone."""
        for group in self._groups:
            group.pop(stream, None)

    def _step(self, group: dict["Stream", int]) -> None:
        loop = asyncio.get_running_loop()
        began = loop.time()
        for stream, left in list(group.items()):
            stream.token()
            group[stream] = left - 1
            if left <= 1:
                del group[stream]
                stream.end()
        if group:
            loop.call_at(began + self._period, self._step, group)
        else:
            self._groups.remove(group)


class Stream(asyncio.Protocol):
    """One connection, and the answer that it is being given."""

    def __init__(self, groups: Groups) -> None:
        self._groups = groups
        self._received = b""
        self._numbers: Iterator[int] = itertools.count(2)
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is registered as none

    def connection_lost(self, exc: Exception | None) -> None:
        self._groups.leave(self)
        self._transport = None

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, found, rest = self._received.partition(b"\r\n\r\n")
        if not found:
            return
        length = next(
            (
                int(line.partition(b":")[2])
                for line in head.split(b"\r\n")
                if line.lower().startswith(b"content-length:")
            ),
            0,
        )
        if len(rest) >= length:
            self._received = rest[length:]
            method, path = head.decode("latin-1").split(" ")[:2]
            self._answer(method, path, rest[:length])

    def token(self) -> None:
        """One more token."""
        self._chunk(b"id: %d" % next(self._numbers) + _TOKEN)

    def end(self) -> None:
        """The answer is complete."""
        self._chunk(_END)
        self._write(b"0\r\n\r\n")

    def _answer(self, method: str, path: str, body: bytes) -> None:
        if method == "POST" and path.endswith("completions"):
            self._stream(json.loads(body))
        elif method == "PUT":
            self._write(b"HTTP/1.1 204 No Content\r\n\r\n")
        elif method == "GET":
            self._object(_facts(path, self._groups.running))
        else:  # a preface of HTTP/2, for one
            self._write(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
            if self._transport is not None:
                self._transport.close()

    def _stream(self, asked: dict[str, Any]) -> None:
        """The first token comes at once; of a longer answer the others come with the group."""
        self._numbers = itertools.count(2)
        self._write(_HEAD.format(id=f"{_STREAM_KEY}-{secrets.token_hex(16)}").encode())
        self._chunk(_ROLE)
        self._chunk(_FIRST)
        left = int(asked.get("max_tokens") or asked.get("max_completion_tokens") or 16) - 1
        if left:
            self._groups.join(self, left)
        else:
            self.end()

    def _object(self, value: dict[str, Any]) -> None:
        body = json.dumps(value).encode()
        head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n"
        self._write(head.format(len(body)).encode() + body)

    def _chunk(self, data: bytes) -> None:
        self._write(b"%x\r\n%s\r\n" % (len(data), data))

    def _write(self, data: bytes) -> None:
        if self._transport is not None:
            self._transport.write(data)


def _facts(path: str, running: int) -> dict[str, Any]:
    """What a router that asks a worker is told: ours by /ready, others by what they know."""
    load = {
        "outstandingTokens": 0,
        "waiting": 0,
        "running": running,
        "waitingTokens": 0,
        "kvTokens": _ROOM,
        "kvUsedTokens": 0,
        "maxBatch": 2**20,
        "tokenBudget": 2**20,
    }
    known: dict[str, dict[str, Any]] = {
        "/ready": {
            "model": MODEL,
            "pool": "paced",
            "namespace": "default",
            "name": "paced-0",
            "classes": ["interactive"],
            "ready": True,
            "draining": False,
            "device": "node",
            "streamKey": _STREAM_KEY,
            "maxModelLen": 2**20,
            "load": {"interactive": load},
        },
        "/running": {"running": running},
        "/v1/models": {"object": "list", "data": [{"id": MODEL, "object": "model"}]},
        "/version": {"version": "0"},
    }
    return known.get(path, {"model_path": MODEL, "served_model_name": MODEL, "status": "ok"})


async def serve(port: int, groups: Groups) -> None:
    """Answers until it is killed."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Stream(groups), "127.0.0.1", port, backlog=1024)
    await server.serve_forever()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--group", type=int, default=64, help="streams of one step")
    parser.add_argument("--pace", type=float, default=10.0, help="tokens a second of a stream")
    options = parser.parse_args()
    with asyncio.Runner(loop_factory=event_loop.new) as runner:
        runner.run(serve(options.port, Groups(size=options.group, pace=options.pace)))


if __name__ == "__main__":
    main()
