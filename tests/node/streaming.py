"""Many open streams, as a program for the cluster's network: every event of each is accounted for.

`python -m node.streaming ASKED`, a JSON object with the fields of `Asked`. It says a line once each
stream has had a token, answers each line that it is told with how many streams are open, and ends
with a line about all of them: a list of objects with the fields of `Told`.
"""

import asyncio
import dataclasses
import json
import sys
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from fakes.event_source import Event, Parser

DONE = "[DONE]"
_AGAIN_SECONDS = 0.1
TIMEOUT = aiohttp.ClientTimeout(total=None, sock_connect=5, sock_read=120)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """Where how many streams are opened, of how many tokens; resumable ones outlive a cut."""

    url: str
    model: str
    streams: int
    tokens: int
    resumable: bool = False


@dataclass(slots=True, kw_only=True)
class Told:
    """What came of a stream: its events' numbers, its tokens as counted and as the server says.

    worker: the same for all streams of one worker. end: "[DONE]", the code of an error, or "cut".
    ended: when, by the system's clock. silence: seconds from its last token to its end.
    """

    worker: str = ""
    numbers: list[int] = field(default_factory=list)
    tokens: int = 0
    usage: int | None = None
    cuts: int = 0
    end: str = ""
    ended: float = 0.0
    silence: float = 0.0


class Stream:
    """One of them."""

    def __init__(self, asked: Asked, http: aiohttp.ClientSession, number: int) -> None:
        self.told = Told()
        # It has had a token, or has ended without one.
        self.begun = asyncio.Event()
        self._asked = asked
        self._http = http
        self._number = number
        self._last_token = 0.0

    async def run(self) -> None:
        """Read it to its end."""
        headers = {"X-Splitpool-Class": "interactive"}
        if self._asked.resumable:
            headers["X-Splitpool-Resumable"] = "true"
        url = f"{self._asked.url}/v1/completions"
        async with self._http.post(url, json=self._body(), headers=headers) as response:
            key = response.headers.get("X-Splitpool-Stream-Id", "")
            self.told.worker = key.rpartition("-")[0]
            await self._read(response)
        while not self.told.end and self._asked.resumable:
            self.told.cuts += 1
            await self._resume(key)
        self.told.end = self.told.end or "cut"
        self.told.ended = time.time()
        self.told.silence = time.monotonic() - self._last_token
        self.begun.set()

    def _body(self) -> dict[str, Any]:
        return {
            "model": self._asked.model,
            "prompt": f"Story number {self._number}. Once upon a time",
            "max_tokens": self._asked.tokens,
            "ignore_eos": True,
            "temperature": 0,
            # Every token is named in its event.
            "logprobs": 0,
            "stream": True,
            "stream_options": {"include_usage": True},
        }

    async def _resume(self, key: str) -> None:
        """Go on after the last event, at a router that answers."""
        url = f"{self._asked.url}/v1/streams/{key}"
        query = {"starting_after": self.told.numbers[-1]}
        while True:
            try:
                async with self._http.get(url, params=query) as response:
                    return await self._read(response)
            except aiohttp.ClientConnectionError:
                await asyncio.sleep(_AGAIN_SECONDS)

    async def _read(self, response: aiohttp.ClientResponse) -> None:
        """Until it ends well, with an error, or is cut."""
        if response.status != 200:
            self.told.end = f"{response.status}: {await response.text()}"
            return
        parser = Parser()
        try:
            async for chunk in response.content.iter_any():
                for event in parser.feed(chunk):
                    self._take(event)
        except aiohttp.ClientError:
            return

    def _take(self, event: Event) -> None:
        if event.data != DONE:
            body = json.loads(event.data)
            if "error" in body:
                # It has no number.
                self.told.end = body["error"]["code"]
                return
            self._count(body)
        self.told.numbers.append(int(event.last_event_id))
        self.told.end = DONE if event.data == DONE else ""

    def _count(self, body: dict[str, Any]) -> None:
        for choice in body["choices"]:
            tokens = (choice.get("logprobs") or {}).get("tokens", ())
            self.told.tokens += len(tokens)
            if tokens:
                self._last_token = time.monotonic()
                self.begun.set()
        if body.get("usage"):
            self.told.usage = body["usage"]["completion_tokens"]


async def main(asked: Asked) -> None:
    """Open all streams, say so, answer questions, and tell at the end what came of them."""
    async with aiohttp.ClientSession(connector=connector(), timeout=TIMEOUT) as http:
        streams = [Stream(asked, http, number) for number in range(asked.streams)]
        reading = asyncio.gather(*(stream.run() for stream in streams))
        await asyncio.gather(*(stream.begun.wait() for stream in streams))
        _say(_open(streams))
        answering = asyncio.create_task(_answer(streams))
        await reading
        answering.cancel()
        _say([dataclasses.asdict(each.told) for each in streams])


def connector() -> aiohttp.TCPConnector:
    """A connection of its own for every request, so that the Service chooses a router for each."""
    return aiohttp.TCPConnector(limit=0, force_close=True)


async def lines() -> AsyncIterator[bytes]:
    """What this program is told."""
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := await reader.readline():
        yield line


async def _answer(streams: list[Stream]) -> None:
    async for _ in lines():
        _say(_open(streams))


def _open(streams: list[Stream]) -> int:
    return sum(not each.told.end for each in streams)


def _say(what: object) -> None:
    print(json.dumps(what), flush=True)


if __name__ == "__main__":
    asyncio.run(main(Asked(**json.loads(sys.argv[1]))))
