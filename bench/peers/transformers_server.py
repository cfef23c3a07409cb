"""transformers' `generate` over HTTP, one request at a time: `MODEL_FOLDER PORT THREADS`.

Runs in the environment of transformers. Its own `transformers serve` knows no `ignore_eos`, so its
answers end before the length that is measured.
"""

import asyncio
import sys
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from peers.shim import Answer, serve


class Streamer:
    """Hands each new token from the generating thread to the event loop; the prompt comes first."""

    def __init__(self, loop: asyncio.AbstractEventLoop, answer: Answer) -> None:
        self._loop = loop
        self._answer = answer
        self._prompt_seen = False

    def put(self, ids: torch.Tensor) -> None:
        """Called by `generate` for the prompt, then for every token."""
        if self._prompt_seen:
            self._send([int(each) for each in ids.flatten()])
        self._prompt_seen = True

    def end(self) -> None:
        """Called when the answer is whole."""
        self._send(None)

    def _send(self, new: list[int] | None) -> None:
        self._loop.call_soon_threadsafe(self._answer.put_nowait, new)


class Generator:
    """Answers one after the other."""

    def __init__(self, folder: str) -> None:
        self._model: Any = AutoModelForCausalLM.from_pretrained(
            folder, dtype=torch.bfloat16, attn_implementation="sdpa"
        ).eval()
        self._model.generation_config.eos_token_id = None
        self._tokenizer: Any = AutoTokenizer.from_pretrained(folder)
        self._waiting: asyncio.Queue[tuple[list[int], int, Answer]] = asyncio.Queue()

    def encode(self, text: str) -> list[int]:
        """Ids of a text."""
        return list(self._tokenizer.encode(text, add_special_tokens=False))

    def decode(self, ids: list[int]) -> str:
        """The text of some ids."""
        return str(self._tokenizer.decode(ids))

    def add(self, ids: list[int], tokens: int) -> Answer:
        """Queue a greedy answer."""
        answer: Answer = asyncio.Queue()
        self._waiting.put_nowait((ids, tokens, answer))
        return answer

    async def run(self) -> None:
        """For ever."""
        loop = asyncio.get_running_loop()
        while True:
            ids, tokens, answer = await self._waiting.get()
            streamer = Streamer(loop, answer)
            await asyncio.to_thread(self._generate, ids, tokens, streamer)

    def _generate(self, ids: list[int], tokens: int, streamer: Streamer) -> None:
        prompt = torch.tensor([ids])
        with torch.inference_mode():
            self._model.generate(
                input_ids=prompt,
                attention_mask=torch.ones_like(prompt),
                max_new_tokens=tokens,
                min_new_tokens=tokens,
                do_sample=False,
                pad_token_id=0,
                streamer=streamer,
            )


if __name__ == "__main__":
    folder, port, threads = sys.argv[1:]
    torch.set_num_threads(int(threads))
    asyncio.run(serve(Generator(folder), int(port)))
