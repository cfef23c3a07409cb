"""Requests that come at their times, whatever becomes of those before; for the cluster's network.

`python -m node.offering URL MODEL` reads lines. `measure CALLERS SECONDS` answers with the requests
a second that so many callers get, one after another; `offer RATE` begins with so many a second, or
ends it with 0; `ask CLASS` makes one request and answers with its status.
"""

import asyncio
import contextlib
import sys
import time

import aiohttp

from node.streaming import TIMEOUT, connector, lines

PROMPT = "Once upon a time there was a small"
TOKENS = 12


class Caller:
    """Makes requests of one size."""

    def __init__(self, http: aiohttp.ClientSession, url: str, model: str) -> None:
        self.rate = 0.0
        self._http = http
        self._url = f"{url}/v1/completions"
        self._model = model
        self._offered: set[asyncio.Task[int]] = set()

    async def ask(self, name: str = "interactive") -> int:
        """The status of one streamed answer, 0 for none."""
        body = {"model": self._model, "prompt": PROMPT, "max_tokens": TOKENS, "stream": True}
        headers = {"X-Splitpool-Class": name}
        with contextlib.suppress(aiohttp.ClientError):
            async with self._http.post(self._url, json=body, headers=headers) as answer:
                await answer.read()
                return answer.status
        return 0

    async def measure(self, callers: int, seconds: float) -> float:
        """Answers a second."""
        end, begun, done = time.monotonic() + seconds, time.monotonic(), 0

        async def call() -> None:
            nonlocal done
            while time.monotonic() < end:
                done += await self.ask() == 200

        await asyncio.gather(*(call() for _ in range(callers)))
        return done / (time.monotonic() - begun)

    async def offer(self) -> None:
        """Until cancelled."""
        while True:
            if not self.rate:
                await asyncio.sleep(0.1)
                continue
            task = asyncio.create_task(self.ask())
            self._offered.add(task)
            task.add_done_callback(self._offered.discard)
            await asyncio.sleep(1 / self.rate)


async def main(url: str, model: str) -> None:
    """Until the lines end."""
    async with aiohttp.ClientSession(connector=connector(), timeout=TIMEOUT) as http:
        caller = Caller(http, url, model)
        offering = asyncio.create_task(caller.offer())
        async for line in lines():
            word, *values = line.decode().split()
            if word == "offer":
                caller.rate = float(values[0])
                print("ok", flush=True)
            elif word == "measure":
                print(await caller.measure(int(values[0]), float(values[1])), flush=True)
            else:
                print(await caller.ask(values[0]), flush=True)
        offering.cancel()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
