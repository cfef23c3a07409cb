"""One request against an OpenAI-compatible URL, with every time on one monotonic clock."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import aiohttp

from splitpool_bench.events import Transcript, transcribe

Clock = Callable[[], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What is asked: a streamed completion of a fixed length, unless told otherwise."""

    prompt: str
    max_tokens: int
    latency_class: str
    temperature: float = 0.0
    ignore_eos: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came back: `sent`, `content_times` and `ended` are readings of the same clock."""

    latency_class: str
    sent: float
    ended: float
    content_times: tuple[float, ...] = ()
    prompt_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    text: str = ""
    failure: str | None = None

    @property
    def ttft(self) -> float | None:
        """First content received - request sent."""
        return self.content_times[0] - self.sent if self.content_times else None

    @property
    def tpot(self) -> float | None:
        """(last token - first token) / (output tokens - 1); tokens are those of `usage`."""
        if self.output_tokens < 2 or not self.content_times:
            return None
        return (self.content_times[-1] - self.content_times[0]) / (self.output_tokens - 1)

    @property
    def gaps(self) -> list[float]:
        """Inter-token latencies, as gaps between events with content."""
        return [b - a for a, b in pairwise(self.content_times)]

    @property
    def e2e(self) -> float:
        """Last byte - request sent."""
        return self.ended - self.sent


class Client:
    """Sends jobs to one server under one model name."""

    def __init__(
        self, session: aiohttp.ClientSession, url: str, model: str, clock: Clock = time.monotonic
    ) -> None:
        self._session = session
        self._url = url.rstrip("/")
        self._model = model
        self._clock = clock

    async def complete(self, job: Job) -> Outcome:
        """Run one job; failures are an outcome, not an exception."""
        sent = self._clock()
        arrivals: list[tuple[float, bytes]] = []
        try:
            failure = await self._stream(job, arrivals)
        except (aiohttp.ClientError, TimeoutError) as error:
            failure = type(error).__name__
        return self._outcome(job, sent, arrivals, failure)

    async def count_tokens(self, text: str) -> int:
        """How many tokens the server's tokenizer makes of a text."""
        body = {"model": self._model, "prompt": text}
        async with self._session.post(f"{self._url}/tokenize", json=body) as response:
            response.raise_for_status()
            return int((await response.json())["count"])

    async def _stream(self, job: Job, arrivals: list[tuple[float, bytes]]) -> str | None:
        async with self._session.post(
            f"{self._url}/v1/completions",
            json=_body(self._model, job),
            headers={"X-Splitpool-Class": job.latency_class},
        ) as response:
            if response.status != 200:
                return f"http {response.status}"
            async for chunk in response.content.iter_any():
                now = self._clock()
                arrivals.append((now, chunk))  # one by one: what came before a cut stays counted
        return None

    def _outcome(
        self, job: Job, sent: float, arrivals: list[tuple[float, bytes]], failure: str | None
    ) -> Outcome:
        ended = arrivals[-1][0] if arrivals else self._clock()
        transcript = transcribe(arrivals)
        usage = transcript.usage or {}
        details = usage.get("prompt_tokens_details") or {}
        return Outcome(
            latency_class=job.latency_class,
            sent=sent,
            ended=ended,
            content_times=tuple(transcript.content_times),
            prompt_tokens=int(usage.get("prompt_tokens", 0)),
            cached_tokens=int(details.get("cached_tokens", 0)),
            output_tokens=int(usage.get("completion_tokens", 0)),
            text="".join(transcript.text),
            failure=failure or _failure(transcript),
        )


def session() -> aiohttp.ClientSession:
    """A session without limits of its own: an open loop must never wait for a connection."""
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0), timeout=aiohttp.ClientTimeout(total=None)
    )


def _body(model: str, job: Job) -> dict[str, Any]:
    return {
        "model": model,
        "prompt": job.prompt,
        "max_tokens": job.max_tokens,
        "temperature": job.temperature,
        "ignore_eos": job.ignore_eos,
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def _failure(transcript: Transcript) -> str | None:
    """Why a stream that began is no success, or None."""
    if transcript.error:
        return transcript.error
    return None if transcript.done else "cut"
