"""OpenVINO GenAI's continuous batching over HTTP: `MODEL_FOLDER PORT THREADS SEQUENCES`.

Runs in OpenVINO's own environment. A step keeps Python's lock, so a second thread would starve
HTTP: steps and HTTP take turns in one.
"""

import asyncio
import sys
from typing import Any

import numpy as np
import openvino  # type: ignore[import-not-found]
import openvino_genai as genai  # type: ignore[import-not-found]

from peers.shim import Answer, serve

CACHE_GIB = 4
STEP_TOKENS = 2048
TURNS = 6  # of the event loop after a step: a few are needed to read and to write
IDLE_SECONDS = 0.001


class Pipeline:
    """Runs steps while there are requests."""

    def __init__(self, folder: str, threads: int, sequences: int) -> None:
        schedule = genai.SchedulerConfig()
        schedule.max_num_seqs = sequences
        schedule.max_num_batched_tokens = STEP_TOKENS
        schedule.cache_size = CACHE_GIB
        schedule.dynamic_split_fuse = True
        schedule.enable_prefix_caching = False
        properties = {"PERFORMANCE_HINT": "LATENCY", "INFERENCE_NUM_THREADS": threads}
        self._pipeline = genai.ContinuousBatchingPipeline(folder, schedule, "CPU", properties)
        self._tokenizer = self._pipeline.get_tokenizer()
        self._running: dict[int, tuple[Any, Answer]] = {}
        self._count = 0

    def encode(self, text: str) -> list[int]:
        """Ids of a text."""
        ids = self._tokenizer.encode(text, add_special_tokens=False).input_ids
        return [int(each) for each in ids.data[0]]

    def decode(self, ids: list[int]) -> str:
        """The text of some ids."""
        return str(self._tokenizer.decode(ids))

    def add(self, ids: list[int], tokens: int) -> Answer:
        """Start a greedy answer."""
        asked = genai.GenerationConfig()
        asked.max_new_tokens = tokens
        asked.ignore_eos = True
        asked.do_sample = False
        self._count += 1
        prompt = openvino.Tensor(np.array([ids], dtype=np.int64))
        answer: Answer = asyncio.Queue()
        handle = self._pipeline.add_request(self._count, prompt, asked)
        self._running[self._count] = (handle, answer)
        return answer

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
        for number, (handle, answer) in list(self._running.items()):
            while handle.can_read():
                for output in handle.read().values():
                    answer.put_nowait(list(output.generated_ids))
            if handle.get_status() != genai.GenerationStatus.RUNNING:
                answer.put_nowait(None)
                del self._running[number]


if __name__ == "__main__":
    folder, port, threads, sequences = sys.argv[1:]
    asyncio.run(serve(Pipeline(folder, int(threads), int(sequences)), int(port)))
