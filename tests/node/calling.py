"""Callers who ask one short question after another, as a program for the cluster's network.

`python -m node.calling ASKED`, with the fields of `streaming.Asked`, of which `streams` is the
number of callers. It says a line once each has had an answer. When it is told a line, each caller
ends with the question it has asked, and it says in one line what came of all calls: a list of
objects with the fields of `Call`.
"""

import asyncio
import dataclasses
import json
import sys
import time
from dataclasses import dataclass

import aiohttp

from node.streaming import TIMEOUT, Asked, Stream, connector, lines


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """When it was made and when its end came, by the system's clock; its worker and its end."""

    begun: float
    ended: float
    worker: str
    end: str

    @property
    def seconds(self) -> float:
        """How long it took."""
        return self.ended - self.begun


async def main(asked: Asked) -> None:
    """Ask until told to stop."""
    calls: list[Call] = []
    enough = asyncio.Event()
    answered = [asyncio.Event() for _ in range(asked.streams)]
    async with aiohttp.ClientSession(connector=connector(), timeout=TIMEOUT) as http:
        callers = asyncio.gather(
            *(
                _ask(asked, http, number, calls, first, enough)
                for number, first in enumerate(answered)
            )
        )
        for first in answered:
            await first.wait()
        print(flush=True)
        await anext(lines())
        enough.set()
        await callers
    print(json.dumps([dataclasses.asdict(call) for call in calls]), flush=True)


async def _ask(
    asked: Asked,
    http: aiohttp.ClientSession,
    number: int,
    calls: list[Call],
    first: asyncio.Event,
    enough: asyncio.Event,
) -> None:
    while not enough.is_set():
        stream = Stream(asked, http, number)
        begun = time.time()
        await stream.run()
        told = stream.told
        calls.append(Call(begun=begun, ended=time.time(), worker=told.worker, end=told.end))
        first.set()


if __name__ == "__main__":
    asyncio.run(main(Asked(**json.loads(sys.argv[1]))))
