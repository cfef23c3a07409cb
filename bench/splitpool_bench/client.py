"""One request against an OpenAI-compatible URL, with every time on one monotonic clock."""

import asyncio
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import aiohttp

from splitpool_bench.events import Transcript, transcribe
from splitpool_bench.exchange import Endpoint, Job, Outcome

Clock = Callable[[], float]
_PATHS: dict[Endpoint, str] = {"completions": "/v1/completions", "chat": "/v1/chat/completions"}


@dataclass(slots=True, kw_only=True)
class _Received:
    """What has come of one answer so far; what came before a cut stays counted."""

    arrivals: list[tuple[float, bytes]] = field(default_factory=list)
    connected: float | None = None
    kept: bool = False
    """Whether the connection had served another request before."""
    detail: str = ""


class Client:
    """Sends jobs to one server under one model name."""

    def __init__(
        self,
        session: aiohttp.ClientSession,
        url: str,
        model: str,
        clock: Clock = time.monotonic,
        *,
        endpoint: Endpoint = "completions",
        headers: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> None:
        """timeout: seconds after which an answer counts as failed."""
        self._session = session
        self._url = url.rstrip("/")
        self._model = model
        self._clock = clock
        self._endpoint = endpoint
        self._headers = dict(headers or {})
        self._timeout = timeout

    async def complete(self, job: Job) -> Outcome:
        """Run one job; failures are an outcome, not an exception."""
        sent = self._clock()
        received = _Received()
        try:
            async with asyncio.timeout(self._timeout):
                failure = await self._ask(job, received)
        except TimeoutError:
            failure = "timeout"
        except aiohttp.ClientError as error:
            failure = type(error).__name__
            received.detail = str(error)
        return self._outcome(job, sent, received, failure)

    async def count_tokens(self, text: str) -> int:
        """How many tokens the server's tokenizer makes of a text."""
        body = {"model": self._model, "prompt": text}
        async with self._session.post(
            f"{self._url}/tokenize", json=body, headers=self._headers
        ) as response:
            response.raise_for_status()
            return int((await response.json())["count"])

    async def count_by_usage(self, text: str) -> int:
        """The same for a server without a tokenizer to ask: what a prompt was counted as."""
        job = Job(prompt=text, max_tokens=1, latency_class="interactive", ignore_eos=False)
        body = _body(self._model, job, self._endpoint) | {"stream": False}
        body.pop("stream_options")
        async with self._session.post(
            self._url + _PATHS[self._endpoint], json=body, headers=self._headers
        ) as response:
            response.raise_for_status()
            return int((await response.json())["usage"]["prompt_tokens"])

    async def _ask(self, job: Job, received: _Received) -> str | None:
        """Once more where a kept connection was closed before the answer began.

        Servers may close one that they kept at any moment, and some do so after each answer without
        having said it; the request was never read then.
        """
        while True:
            try:
                return await self._stream(job, received)
            except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError):
                if not received.kept or received.arrivals:
                    raise

    async def _stream(self, job: Job, received: _Received) -> str | None:
        async with self._session.post(
            self._url + _PATHS[self._endpoint],
            json=_body(self._model, job, self._endpoint),
            headers={**self._headers, "X-Splitpool-Class": job.latency_class},
            trace_request_ctx=lambda kept: _connected(received, self._clock, kept=kept),
        ) as response:
            if response.status != 200:
                received.detail = _message(await response.read())
                return f"http {response.status}"
            async for chunk in response.content.iter_any():
                now = self._clock()
                received.arrivals.append((now, chunk))  # one by one, since a cut may come
        return None

    def _outcome(self, job: Job, sent: float, received: _Received, failure: str | None) -> Outcome:
        arrivals = received.arrivals
        ended = arrivals[-1][0] if arrivals else self._clock()
        transcript = transcribe(arrivals)
        usage = transcript.usage or {}
        details = usage.get("prompt_tokens_details") or {}
        counted = "completion_tokens" in usage
        return Outcome(
            latency_class=job.latency_class,
            sent=sent,
            ended=ended,
            content_times=tuple(transcript.content_times),
            prompt_tokens=int(usage.get("prompt_tokens", job.prompt_tokens)),
            cached_tokens=int(details.get("cached_tokens") or 0),
            output_tokens=(
                int(usage["completion_tokens"]) if counted else len(transcript.content_times)
            ),
            counted=counted or not transcript.content_times,
            connected=received.connected,
            text="".join(transcript.text),
            failure=failure or _failure(transcript),
            detail=received.detail,
        )


def session() -> aiohttp.ClientSession:
    """A session without limits of its own: an open loop must never wait for a connection."""
    trace = aiohttp.TraceConfig()
    trace.on_connection_create_end.append(_note_new)
    trace.on_connection_reuseconn.append(_note_kept)
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0),
        timeout=aiohttp.ClientTimeout(total=None),
        trace_configs=[trace],
    )


async def _note_new(_: aiohttp.ClientSession, context: SimpleNamespace, __: object) -> None:
    if context.trace_request_ctx is not None:
        context.trace_request_ctx(False)


async def _note_kept(_: aiohttp.ClientSession, context: SimpleNamespace, __: object) -> None:
    if context.trace_request_ctx is not None:
        context.trace_request_ctx(True)


def _connected(received: _Received, clock: Clock, *, kept: bool) -> None:
    received.connected = clock()
    received.kept = kept


def _body(model: str, job: Job, endpoint: Endpoint) -> dict[str, Any]:
    if endpoint == "chat":
        asked: dict[str, Any] = {"messages": [{"role": "user", "content": job.prompt}]}
    else:
        asked = {"prompt": job.prompt}
    body = {
        "model": model,
        **asked,
        "max_tokens": job.max_tokens,
        "temperature": job.temperature,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    # No part of OpenAI's API: strict servers refuse it, so it is sent only where it is wanted.
    return body | {"ignore_eos": True} if job.ignore_eos else body


def _message(body: bytes) -> str:
    """What an error answer says, in at most 300 characters."""
    try:
        said = json.loads(body)["error"]
        text = str(said["message"] if isinstance(said, dict) else said)
    except (ValueError, KeyError, TypeError):
        text = body.decode(errors="replace")
    return " ".join(text.split())[:300]


def _failure(transcript: Transcript) -> str | None:
    """Why a stream that began is no success, or None."""
    if transcript.error:
        return transcript.error
    return None if transcript.done else "cut"
