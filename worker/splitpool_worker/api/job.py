"""One checked request on its way through the engine, to a whole answer or to a stream."""

import asyncio
import secrets
import time
from dataclasses import dataclass, field, replace
from uuid import uuid4

from aiohttp import web

from splitpool_worker.api import headers, sse
from splitpool_worker.api.answers import ChatFormat, CompletionFormat, Format
from splitpool_worker.api.connection import HEADERS, Connection
from splitpool_worker.api.errors import ApiError, engine_failed, invalid
from splitpool_worker.api.generation import Choice, Generation, Sink, Timings
from splitpool_worker.api.protocol import Call
from splitpool_worker.api.ring import Position
from splitpool_worker.api.service import Service
from splitpool_worker.api.sinks import GatheringSink, StreamSink, WholeSink
from splitpool_worker.api.streams import Duplicate, Stream
from splitpool_worker.config import ResumeMode
from splitpool_worker.engine.engine import EngineStopped, NeverFits
from splitpool_worker.schedule.sequence import LatencyClass, Request
from splitpool_worker.text.output import AnswerText

# Odd, and far from small numbers: the seeds of the choices of one request do not meet.
_SEED_STEP = 0x9E3779B97F4A7C15


@dataclass(slots=True, kw_only=True, eq=False)
class Job:
    """What was asked, by whom, and the prompts as token ids."""

    request: web.Request
    service: Service
    call: Call
    cls: LatencyClass
    prompts: list[tuple[int, ...]]
    timings: Timings
    arrival: float
    request_id: str = field(init=False)
    caller: str = field(init=False)

    def __post_init__(self) -> None:
        self.request_id = headers.request_id_of(self.request)
        self.caller = headers.caller_of(self.request)

    async def whole(self) -> web.Response:
        """One JSON object when everything is there."""
        sink = WholeSink(self.call.choices, asyncio.get_running_loop())
        generation = self._generation(sink, resumable=False)
        self._start(generation)
        try:
            await sink.wait()
        finally:
            generation.abort()
        body = self._format().whole(sink.answers, generation.usage)
        times = {"Server-Timing": sse.server_timing(self.timings.parts())}
        return web.Response(
            body=body, content_type="application/json", headers=self._headers() | times
        )

    async def stream(self) -> web.StreamResponse:
        """Numbered events while they come."""
        service, stream = self.service, self._open()
        inner = StreamSink(
            stream,
            self._format(),
            service.clock,
            include_usage=self.call.include_usage,
            continuous_usage=self.call.continuous_usage,
        )
        generation = self._generation(self._gathering(inner), resumable=stream.resumable)
        connection = Connection(stream, Position(), service.intervals, self._timing_line)
        try:
            self._start(generation)
            stream.source = generation
            inner.open(self.call.choices)
            response = web.StreamResponse(
                headers=HEADERS | self._headers() | {"X-Splitpool-Stream-Id": stream.id}
            )
            await connection.pump(self.request, response)
        finally:
            self._close(stream, connection, generation)
        return response

    def _open(self) -> Stream:
        try:
            return self.service.streams.open(
                id=f"{self.service.stream_key}-{secrets.token_hex(16)}",
                owner=self.caller,
                request_id=self.request_id,
                resumable=self._resumable(),
            )
        except Duplicate as error:
            raise ApiError(
                409,
                "duplicate_request_id",
                f"A stream with X-Request-Id {self.request_id} is alive: resume it with "
                f"GET /v1/streams/{self.request_id}, or use another id.",
                param="X-Request-Id",
            ) from error

    def _resumable(self) -> bool:
        mode = self.service.config.resume_mode
        asked = headers.resumable(self.request)
        if mode is ResumeMode.OFF or (mode is ResumeMode.ON_REQUEST and not asked):
            return False
        if self.call.choices > 1 and asked:
            raise invalid(
                "n",
                f"n is {self.call.choices} (answers in all): only a stream of one answer can be "
                "resumed; ask for one, or leave out X-Splitpool-Resumable",
            )
        return self.call.choices == 1

    def _close(self, stream: Stream, connection: Connection, generation: Generation) -> None:
        """The client left or has everything. What can be resumed is kept for the window, and so
        is the memory that a stream was deleted."""
        stream.detach(connection.reader, self.service.clock())
        if stream.source is None or not (stream.resumable or stream.deleted):
            generation.abort()
            self.service.streams.discard(stream)

    def _gathering(self, inner: StreamSink) -> Sink:
        """Where the class does not stream, a flush per token would cost others their time."""
        part = self.service.config.of(self.cls)
        if part is None or part.stream:
            return inner
        loop = asyncio.get_running_loop()
        service = self.service
        return GatheringSink(inner, service.intervals.gather, service.clock, loop.call_later)

    def _timing_line(self) -> bytes:
        return sse.timing(self.timings.parts())

    def _headers(self) -> dict[str, str]:
        return {"X-Request-Id": self.request_id, "X-Splitpool-Class": self.cls.value}

    def _start(self, generation: Generation) -> None:
        try:
            generation.start()
        except NeverFits as error:
            raise invalid(
                "messages" if self.call.chat else "prompt",
                f"the prompt has {error.prompt_tokens} tokens: at most {error.limit} can ever fit "
                "the memory of this worker; shorten the prompt",
                "context_length_exceeded",
            ) from error
        except EngineStopped as error:
            raise engine_failed() from error
        self.service.live.add(generation)

    def _generation(self, sink: Sink, *, resumable: bool) -> Generation:
        service = self.service
        return Generation(
            choices=tuple(self._choices(resumable)),
            prompt_tokens=sum(len(prompt) for prompt in self.prompts),
            arrival=self.arrival,
            timings=self.timings,
            sink=sink,
            observer=service.metrics,
            engine=service.engine,
            delivery=service.delivery,
            clock=service.clock,
            on_end=service.live.discard,
        )

    def _choices(self, resumable: bool) -> list[Choice]:
        choices: list[Choice] = []
        for prompt in self.prompts:
            seed = self.call.seed
            base = secrets.randbits(64) if seed is None else seed
            for number in range(self.call.n):
                drawn = (base + number * _SEED_STEP) % 2**64
                choices.append(self._choice(len(choices), number, prompt, drawn, resumable))
        return choices

    def _choice(
        self, index: int, number: int, prompt: tuple[int, ...], seed: int, resumable: bool
    ) -> Choice:
        call, text = self.call, self.service.text
        eos = frozenset() if call.sampling.ignore_eos else text.eos_ids
        request = Request(
            id=f"{uuid4().hex}-{index}",
            cls=self.cls,
            prompt=prompt,
            max_tokens=call.limit(self.service.max_model_len - len(prompt)),
            params=replace(call.sampling, seed=seed),
            stop_token_ids=call.stop_token_ids | eos,
            salt=self.caller.encode(),
            stream=call.stream,
            arrival=self.arrival,
        )
        answer = AnswerText(
            text,
            stops=call.stop,
            min_tokens=call.sampling.min_tokens,
            context=() if call.chat else prompt[-4:],
            whole_tokens=resumable,
        )
        return Choice(index=index, request=request, text=answer, first_of_prompt=number == 0)

    def _format(self) -> Format:
        kind = ChatFormat if self.call.chat else CompletionFormat
        prefix = "chatcmpl" if self.call.chat else "cmpl"
        return kind(
            id=f"{prefix}-{uuid4().hex}",
            created=int(time.time()),
            model=self.call.model,
            cls=self.cls,
            token_bytes=self.service.text.token_bytes,
            logprobs=self.call.sampling.logprobs is not None,
            usage_in_chunks=self.call.include_usage,
        )
