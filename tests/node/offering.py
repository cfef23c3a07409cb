"""Requests that come at their times, whatever becomes of those before; for the cluster's network.

`python -m node.offering URL MODEL` reads lines. `measure CALLERS ANSWERS` answers with the requests
a second at which so many callers, who ask one after another, get so many answers; `offer RATE`
begins with so many a second, or ends it with 0. `keep CLASS` begins with one request after another;
`end` lets the last one of these be answered and answers with the status of each.
"""

import asyncio
import contextlib
import sys
import time

import aiohttp

from node.streaming import connector, lines

PROMPT = "Once upon a time there was a small"
TOKENS = 12
# Who asks a class that sleeps waits until there is room for it.
TIMEOUT = aiohttp.ClientTimeout(total=None, sock_connect=5)


class Caller:
    """Makes requests of one size."""

    def __init__(self, http: aiohttp.ClientSession, url: str, model: str) -> None:
        self.rate = 0.0
        self._http = http
        self._url = f"{url}/v1/completions"
        self._model = model
        self._offered: set[asyncio.Task[int]] = set()
        self._kept: asyncio.Task[list[int]] | None = None
        self._enough = asyncio.Event()

    async def ask(self, name: str = "interactive") -> int:
        """The status of one streamed answer, 0 for none."""
        body = {"model": self._model, "prompt": PROMPT, "max_tokens": TOKENS, "stream": True}
        headers = {"X-Splitpool-Class": name}
        with contextlib.suppress(aiohttp.ClientError):
            async with self._http.post(self._url, json=body, headers=headers) as answer:
                await answer.read()
                return answer.status
        return 0

    async def measure(self, callers: int, answers: int) -> float:
        """Answers a second, from the first one to the last while all callers are there."""
        times: list[float] = []

        async def call() -> None:
            while len(times) < answers:
                if await self.ask() == 200:
                    times.append(time.monotonic())

        await asyncio.gather(*(call() for _ in range(callers)))
        return (answers - 1) / (times[answers - 1] - times[0])

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

    def keep(self, name: str) -> None:
        """One request after another, until `end`."""

        async def asking() -> list[int]:
            answers = []
            while not self._enough.is_set():
                answers.append(await self.ask(name))
            return answers

        self._enough.clear()
        self._kept = asyncio.create_task(asking())

    async def end(self) -> list[int]:
        """The statuses of those, once the last one has been answered."""
        self._enough.set()
        return await self._kept if self._kept else []


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
                print(await caller.measure(int(values[0]), int(values[1])), flush=True)
            elif word == "keep":
                caller.keep(values[0])
                print("ok", flush=True)
            else:
                print(*await caller.end(), flush=True)
        offering.cancel()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
