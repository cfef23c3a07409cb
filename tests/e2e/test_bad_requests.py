"""Requests that are wrong or extreme: each gets a clear answer, and the chain goes on serving."""

import io
import json
import random
from typing import Any

import aiohttp
import pytest

from e2e.asking import ask, completion
from splitpool_bench.chain import Chain
from splitpool_bench.client import Client
from splitpool_bench.prompts import Vocabulary, learn

JSON = {"Content-Type": "application/json"}
MAX_MODEL_LEN = 512  # of the small chain


@pytest.fixture(autouse=True)
async def the_chain_still_serves(http: aiohttp.ClientSession, small: Chain) -> Any:
    yield
    status, answer = await ask(http, small, completion(small, max_tokens=1))
    assert status == 200, answer


@pytest.fixture
async def words(http: aiohttp.ClientSession, small: Chain) -> Vocabulary:
    return await learn(Client(http, small.url, small.model).count_tokens)


async def post(http: aiohttp.ClientSession, chain: Chain, data: bytes) -> tuple[int, Any]:
    url = f"{chain.url}/v1/completions"
    async with http.post(url, data=io.BytesIO(data), headers=JSON) as response:
        return response.status, (await response.json())["error"]


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        pytest.param({"temperature": -1}, "temperature", id="temperature -1"),
        pytest.param({"max_tokens": 0}, "max_tokens", id="max_tokens 0"),
        pytest.param({"max_tokens": "many"}, "max_tokens", id="max_tokens in words"),
        pytest.param({"stop": [f"word {n}" for n in range(1000)]}, "stop", id="1,000 stop strings"),
        pytest.param({"n": 0}, "n", id="n 0"),
        pytest.param({"top_p": 2}, "top_p", id="top_p 2"),
        pytest.param({"logprobs": 1000}, "logprobs", id="logprobs 1000"),
        pytest.param({"prompt": {"a": 1}}, "prompt", id="a prompt that is an object"),
    ],
)
async def test_a_value_out_of_range_is_refused_by_its_name(
    http: aiohttp.ClientSession, small: Chain, fields: dict[str, Any], param: str
) -> None:
    status, answer = await ask(http, small, completion(small, **fields))

    assert status == 400
    assert answer["error"]["param"] == param
    assert answer["error"]["type"] == "invalid_request_error"
    assert param in answer["error"]["message"]


async def test_one_token_is_an_answer(http: aiohttp.ClientSession, small: Chain) -> None:
    status, answer = await ask(http, small, completion(small, max_tokens=1))

    assert status == 200
    assert answer["usage"]["completion_tokens"] == 1
    assert answer["choices"][0]["finish_reason"] == "length"


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b'{"model": "smollm2-135m-instruct", ', id="cut JSON"),
        pytest.param(b'{"model": "smollm2-135m-instruct", "prompt": "\xff\xfe"}', id="not UTF-8"),
        pytest.param(b"[]", id="no object"),
        pytest.param(b"", id="nothing"),
        pytest.param(b"[" * 100_000, id="too deep"),
    ],
)
async def test_a_body_that_is_no_json_object_is_refused(
    http: aiohttp.ClientSession, small: Chain, data: bytes
) -> None:
    status, error = await post(http, small, data)

    assert status == 400
    assert error["type"] == "invalid_request_error"


async def test_an_unknown_model_is_not_found(http: aiohttp.ClientSession, small: Chain) -> None:
    status, answer = await ask(http, small, completion(small) | {"model": "gpt-unknown"})

    assert status == 404
    assert answer["error"]["code"] == "model_not_found"
    assert "gpt-unknown" in answer["error"]["message"]


async def test_an_unknown_class_is_refused_with_those_allowed(
    http: aiohttp.ClientSession, small: Chain
) -> None:
    status, answer = await ask(http, small, completion(small), {"X-Splitpool-Class": "fast"})

    assert status == 400
    assert "interactive" in answer["error"]["message"]
    assert "batch" in answer["error"]["message"]


async def test_thirty_megabytes_that_can_never_fit_are_refused_with_both_numbers(
    http: aiohttp.ClientSession, small: Chain
) -> None:
    prompt = "the sea " * (30 * 1024 * 1024 // 8)

    status, error = await post(http, small, json.dumps(completion(small, prompt)).encode())

    assert status == 400
    assert "512" in error["message"]


async def test_a_body_over_the_limit_is_too_large(
    http: aiohttp.ClientSession, small: Chain
) -> None:
    status, error = await post(http, small, b" " * (33 * 1024 * 1024))

    assert status == 413
    assert error["code"] == "body_too_large"


async def test_a_prompt_one_short_of_the_longest_sequence_gets_its_token(
    http: aiohttp.ClientSession, small: Chain, words: Vocabulary
) -> None:
    prompt = exactly(words, MAX_MODEL_LEN - 1)

    status, answer = await ask(http, small, completion(small, prompt, max_tokens=1))

    assert status == 200
    assert answer["usage"]["prompt_tokens"] == MAX_MODEL_LEN - 1
    assert answer["usage"]["completion_tokens"] == 1


@pytest.mark.parametrize("tokens", [MAX_MODEL_LEN, MAX_MODEL_LEN + 1, 3 * MAX_MODEL_LEN])
async def test_a_prompt_that_leaves_no_room_is_refused_with_both_numbers(
    http: aiohttp.ClientSession, small: Chain, words: Vocabulary, tokens: int
) -> None:
    status, answer = await ask(http, small, completion(small, exactly(words, tokens), max_tokens=1))

    assert status == 400
    assert str(tokens) in answer["error"]["message"]
    assert str(MAX_MODEL_LEN) in answer["error"]["message"]


def exactly(words: Vocabulary, tokens: int) -> str:
    return words.prompt(tokens, random.Random(tokens))
