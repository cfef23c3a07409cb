"""Routes that generate: /v1/chat/completions and /v1/completions, streamed or whole."""

from collections.abc import Callable

from aiohttp import web

from splitpool_worker.api import headers
from splitpool_worker.api.errors import ApiError, invalid
from splitpool_worker.api.generation import Timings
from splitpool_worker.api.job import Job
from splitpool_worker.api.prompts import fitting_prompts
from splitpool_worker.api.protocol import Call, parse_chat, parse_completion
from splitpool_worker.api.service import SERVICE, Service


async def chat(request: web.Request) -> web.StreamResponse:
    """POST /v1/chat/completions."""
    return await _generate(request, parse_chat)


async def completions(request: web.Request) -> web.StreamResponse:
    """POST /v1/completions."""
    return await _generate(request, parse_completion)


async def _generate(request: web.Request, parse: Callable[[bytes], Call]) -> web.StreamResponse:
    service = request.app[SERVICE]
    arrival = service.clock()
    service.admit()
    timings = Timings()
    call, timings.parse = await service.bodies.read(request, parse, service.clock)
    cls = headers.latency_class(request, call, service.config)
    _check(call, service)
    before = service.clock()
    prompts = await fitting_prompts(service.text, call, service.max_model_len)
    timings.tokenise = service.clock() - before
    service.admit()  # again: draining may have begun meanwhile
    job = Job(
        request=request,
        service=service,
        call=call,
        cls=cls,
        prompts=prompts,
        timings=timings,
        arrival=arrival,
    )
    return await (job.stream() if call.stream else job.whole())


def _check(call: Call, service: Service) -> None:
    name = service.config.model_name
    if call.model != name:
        raise ApiError(
            404,
            "model_not_found",
            f"The model {call.model!r} is not served here; the one that is: {name!r}.",
            param="model",
        )
    ids = [*call.stop_token_ids, *(token for token, _ in call.sampling.logit_bias)]
    wrong = next((token for token in ids if not 0 <= token < service.text.vocab_size), None)
    if wrong is not None:
        param = "stop_token_ids" if wrong in call.stop_token_ids else "logit_bias"
        raise invalid(
            param,
            f"{param} has token id {wrong}: ids go from 0 to {service.text.vocab_size - 1}",
        )
