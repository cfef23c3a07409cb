"""Which server is measured: does it answer, under which model, and how does it count tokens?"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import aiohttp

from splitpool_bench.client import Client
from splitpool_bench.measuring.options import Counting, Options, Server
from splitpool_bench.prompts import NoVocabulary, Vocabulary, by_bytes, learn

ASK_SECONDS = 30.0


class CannotMeasure(Exception):
    """The server cannot be measured; the message says why and what helps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A server that answered."""

    server: Server
    url: str
    model: str
    client: Client
    http: aiohttp.ClientSession


def base_url(url: str) -> str:
    """The URL without the /v1 that clients of the API put behind it."""
    return url.rstrip("/").removesuffix("/v1")


async def reach(http: aiohttp.ClientSession, server: Server, options: Options) -> Target:
    """Find the model. Raises CannotMeasure."""
    url = base_url(server.url)
    headers = {"Authorization": f"Bearer {server.key}"} if server.key else {}
    model = _choose(server, url, await _models(http, url, headers))
    client = Client(
        http,
        url,
        model,
        endpoint=server.endpoint,
        headers=headers,
        timeout=options.timeout,
    )
    return Target(server=server, url=url, model=model, client=client, http=http)


async def vocabulary(target: Target) -> tuple[Vocabulary, Counting]:
    """Words of one token each, and who counted them; a chat's template counts as well."""
    ways: list[tuple[Counting, Callable[[str], Awaitable[int]]]] = [
        ("usage", target.client.count_by_usage)
    ]
    if target.server.endpoint == "completions":
        ways.insert(0, ("tokenizer", target.client.count_tokens))
    for counting, count in ways:
        try:
            return await learn(count), counting
        except (aiohttp.ClientError, NoVocabulary, KeyError, ValueError, TypeError, TimeoutError):
            continue  # the next way asks less of the server
    return by_bytes(), "bytes"


async def _models(http: aiohttp.ClientSession, url: str, headers: dict[str, str]) -> list[str]:
    limit = aiohttp.ClientTimeout(total=ASK_SECONDS)
    try:
        async with http.get(f"{url}/v1/models", headers=headers, timeout=limit) as response:
            status, body = response.status, await _json(response)
    except aiohttp.InvalidURL:
        raise CannotMeasure(f"{url} is no URL; give one such as http://127.0.0.1:8080") from None
    except TimeoutError:
        raise CannotMeasure(f"{url} did not answer within {ASK_SECONDS:.0f} s") from None
    except aiohttp.ClientError as error:
        raise CannotMeasure(
            f"{url} does not answer: {error}; is the server up? "
            "`splitpool up examples/smollm2.yaml` starts one on http://127.0.0.1:8080"
        ) from None
    if status in (401, 403):
        raise CannotMeasure(
            f"{url} answered {status}: it wants an API key; name the variable that holds it with "
            "--api-key-env"
        )
    try:
        return [str(each["id"]) for each in body["data"]]
    except (KeyError, TypeError):
        return []


async def _json(response: aiohttp.ClientResponse) -> Any:
    try:
        return await response.json(content_type=None)
    except (ValueError, aiohttp.ClientError):
        return None


def _choose(server: Server, url: str, models: list[str]) -> str:
    """A server that lists no models is asked under the name that was given."""
    if server.model is None and not models:
        raise CannotMeasure(f"{url}/v1/models names no model; say which with --model")
    if server.model is None and len(models) > 1:
        raise CannotMeasure(f"{url} serves {', '.join(models)}; choose one with --model")
    if server.model is None:
        return models[0]
    if models and server.model not in models:
        raise CannotMeasure(
            f"{url} serves no model {server.model!r}; it has {', '.join(models)}: change --model"
        )
    return server.model
