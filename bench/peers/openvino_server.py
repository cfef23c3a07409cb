"""OpenVINO GenAI's continuous batching behind the part of the OpenAI API that is measured.

Runs in OpenVINO's own environment: `openvino_server.py MODEL_FOLDER PORT THREADS SEQUENCES`. A step
keeps Python's lock, so a second thread would starve HTTP: steps and HTTP take turns in one.
"""

import asyncio
import json
import sys
from collections.abc import Mapping
from typing import Any

import openvino_genai as genai  # type: ignore[import-not-found]
from aiohttp import web

CACHE_GIB = 4
STEP_TOKENS = 2048
TURNS = 6  # of the event loop after a step: a few are needed to read and to write
IDLE_SECONDS = 0.001


class Engine:
    """Runs steps while there are requests; each has a queue of new token ids, closed by None."""

    def __init__(self, folder: str, threads: int, sequences: int) -> None:
        schedule = genai.SchedulerConfig()
        schedule.max_num_seqs = sequences
        schedule.max_num_batched_tokens = STEP_TOKENS
        schedule.cache_size = CACHE_GIB
        schedule.dynamic_split_fuse = True
        schedule.enable_prefix_caching = False
        properties = {"PERFORMANCE_HINT": "LATENCY", "INFERENCE_NUM_THREADS": threads}
        self._pipeline = genai.ContinuousBatchingPipeline(folder, schedule, "CPU", properties)
        self.tokenizer = self._pipeline.get_tokenizer()
        self._running: dict[int, tuple[Any, asyncio.Queue[list[int] | None]]] = {}
        self._count = 0

    def tokens(self, text: str) -> Any:
        """Ids of a text, as a tensor of one row."""
        return self.tokenizer.encode(text, add_special_tokens=False).input_ids

    def add(self, ids: Any, body: Mapping[str, Any]) -> "asyncio.Queue[list[int] | None]":
        """Start a greedy request of the asked length."""
        asked = genai.GenerationConfig()
        asked.max_new_tokens = int(body["max_tokens"])
        asked.ignore_eos = bool(body.get("ignore_eos"))
        asked.do_sample = False
        self._count += 1
        queue: asyncio.Queue[list[int] | None] = asyncio.Queue()
        handle = self._pipeline.add_request(self._count, ids, asked)
        self._running[self._count] = (handle, queue)
        return queue

    async def run(self) -> None:
        """For ever."""
        while True:
            if not self._running:
                await asyncio.sleep(IDLE_SECONDS)
                continue
            self._pipeline.step()
            self._deliver()
            for _ in range(TURNS):
                await asyncio.sleep(0)

    def _deliver(self) -> None:
        for number, (handle, queue) in list(self._running.items()):
            while handle.can_read():
                for output in handle.read().values():
                    queue.put_nowait(list(output.generated_ids))
            if handle.get_status() != genai.GenerationStatus.RUNNING:
                queue.put_nowait(None)
                del self._running[number]


class Api:
    """The routes that a load generator asks."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def completions(self, request: web.Request) -> web.StreamResponse:
        """A streamed completion, or a whole one."""
        body = await request.json()
        ids = self._engine.tokens(body["prompt"])
        queue = self._engine.add(ids, body)
        if not body.get("stream"):
            said = [one async for new in _until_none(queue) for one in new]
            return web.json_response(self._event(said, ids.shape[1], len(said)))
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        count = 0
        async for new in _until_none(queue):
            count += len(new)
            await _send(response, self._event(new))
        await _send(response, self._event([], ids.shape[1], count))
        await response.write(b"data: [DONE]\n\n")
        return response

    async def tokenize(self, request: web.Request) -> web.Response:
        """How many tokens a text has."""
        ids = self._engine.tokens((await request.json())["prompt"])
        return web.json_response({"count": ids.shape[1]})

    async def models(self, _: web.Request) -> web.Response:
        """The only model; that it answers says that it is ready."""
        return web.json_response({"data": [{"id": "m"}]})

    def _event(self, ids: list[int], asked: int = 0, answered: int = 0) -> dict[str, Any]:
        """One event; each new token has some text, so that its arrival counts."""
        text = self._engine.tokenizer.decode(ids) or " " if ids else ""
        choices = [{"index": 0, "text": text, "finish_reason": None}] if ids else []
        usage = {"prompt_tokens": asked, "completion_tokens": answered}
        return {"choices": choices} | ({"usage": usage} if asked else {})


async def _until_none(queue: "asyncio.Queue[list[int] | None]") -> Any:
    while (new := await queue.get()) is not None:
        yield new


async def _send(response: web.StreamResponse, event: Mapping[str, Any]) -> None:
    await response.write(b"data: " + json.dumps(event).encode() + b"\n\n")


async def main() -> None:
    """Serve until the process is ended."""
    folder, port, threads, sequences = sys.argv[1:]
    engine = Engine(folder, int(threads), int(sequences))
    api = Api(engine)
    app = web.Application()
    app.router.add_post("/v1/completions", api.completions)
    app.router.add_post("/tokenize", api.tokenize)
    app.router.add_get("/v1/models", api.models)
    app.router.add_get("/health", api.models)
    runner = web.AppRunner(app, handle_signals=True)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", int(port)).start()
    await engine.run()


if __name__ == "__main__":
    asyncio.run(main())
