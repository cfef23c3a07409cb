"""Bad requests: each gets a clear answer as an OpenAI error object, and the worker lives on."""

import asyncio
import io
import json
from typing import Any

import pytest
from tokenizers import normalizers

from fakes.fake_runner import FakeRunner
from fakes.worker_rig import FIXED, Rig, worker

LIMIT = 256  # of the fake model


@pytest.fixture
async def rig() -> Any:
    async with worker() as running:
        yield running
        assert (await running.complete(max_tokens=1))["usage"]["completion_tokens"] == 1


async def refused(rig: Rig, **fields: Any) -> tuple[int, dict[str, Any]]:
    status, answer = await rig.post(FIXED | {"prompt": "hi"} | fields)
    return status, answer["error"]


async def test_a_wrong_value_is_named(rig: Rig) -> None:
    status, error = await refused(rig, temperature=-1)

    assert status == 400
    assert error["param"] == "temperature"
    assert set(error) == {"message", "type", "param", "code"}


async def test_an_unknown_model_is_not_found(rig: Rig) -> None:
    status, error = await refused(rig, model="other")

    assert status == 404
    assert error["code"] == "model_not_found"
    assert error["type"] == "invalid_request_error"
    assert "other" in error["message"]
    assert "toy" in error["message"]


@pytest.mark.parametrize(
    "data",
    [b"", b'{"model":', b"[]", b'{"model": "toy", "prompt": "\xff"}', b"[" * 100_000],
)
async def test_a_body_that_is_no_json_object_is_refused(rig: Rig, data: bytes) -> None:
    async with rig.http.post(f"{rig.url}/v1/completions", data=data) as response:
        assert response.status == 400
        assert (await response.json())["error"]["code"] == "invalid_json"


async def test_a_body_that_is_not_coded_as_it_says_is_refused(rig: Rig) -> None:
    headers = {"Content-Encoding": "gzip"}
    url = f"{rig.url}/v1/completions"
    async with rig.http.post(url, data=b"plain bytes", headers=headers) as response:
        assert response.status == 400
        assert (await response.json())["error"]["code"] == "invalid_body"


async def test_a_body_over_the_limit_is_too_large(rig: Rig) -> None:
    data = io.BytesIO(b" " * (33 * 1024 * 1024))
    async with rig.http.post(f"{rig.url}/v1/completions", data=data) as response:
        assert response.status == 413
        assert (await response.json())["error"]["code"] == "body_too_large"


async def test_thirty_megabytes_that_never_fit_are_refused_with_both_numbers(rig: Rig) -> None:
    body = FIXED | {"prompt": "the sea " * (30 * 1024 * 1024 // 8)}
    data = io.BytesIO(json.dumps(body).encode())
    async with rig.http.post(f"{rig.url}/v1/completions", data=data) as response:
        status, error = response.status, (await response.json())["error"]

    assert status == 400
    assert error["code"] == "context_length_exceeded"
    assert str(LIMIT) in error["message"]


@pytest.mark.parametrize(
    "asked",
    [
        {"prompt": "x" * 300_000},
        {"messages": [{"role": "user", "content": "x" * 3_000}] * 100},
    ],
)
async def test_what_no_prompt_could_hold_is_not_tokenised(rig: Rig, asked: dict[str, Any]) -> None:
    status, answer = await rig.post(asked, path="/tokenize")

    assert status == 400
    assert answer["error"]["param"] in asked
    assert str(LIMIT) in answer["error"]["message"]


async def test_what_no_prompt_could_hold_is_not_tokenised_behind_a_normaliser_either(
    rig: Rig,
) -> None:
    """Llama 2 has one; its tokenizer would take minutes for such a text."""
    rig.service.text.backend.normalizer = normalizers.Replace(" ", "_")

    status, error = await refused(rig, prompt="a b " * 200_000)

    assert status == 400
    assert error["code"] == "context_length_exceeded"
    assert (await rig.complete("a b", max_tokens=2))["usage"]["completion_tokens"] == 2


@pytest.mark.parametrize("tokens", [LIMIT, LIMIT + 1, 10 * LIMIT])
async def test_a_prompt_that_leaves_no_room_is_refused_with_both_numbers(
    rig: Rig, tokens: int
) -> None:
    # As ids, so that no lower bound stands in for the exact number.
    status, error = await refused(rig, prompt=[1] * tokens, max_tokens=1)

    assert status == 400
    assert error["code"] == "context_length_exceeded"
    assert str(tokens) in error["message"]
    assert str(LIMIT) in error["message"]


async def test_a_prompt_one_short_of_the_limit_gets_one_token(rig: Rig) -> None:
    answer = await rig.complete("x" * (LIMIT - 1))

    assert answer["usage"]["completion_tokens"] == 1
    assert answer["choices"][0]["finish_reason"] == "length"


async def test_prompt_and_answer_that_are_too_long_together_are_refused(rig: Rig) -> None:
    status, error = await refused(rig, prompt="x" * 200, max_tokens=57)

    assert status == 400
    assert error["param"] == "max_tokens"
    for number in ("200", "57", "256", "56"):
        assert number in error["message"]


async def test_a_prompt_that_fits_the_model_but_not_the_memory_is_refused_with_both_numbers() -> (
    None
):
    async with worker(runner=FakeRunner(max_model_len=1000, num_blocks=50)) as rig:
        status, error = await refused(rig, prompt=[1] * 300, max_tokens=1)

    assert status == 400
    assert "300" in error["message"]
    assert "199" in error["message"]


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"prompt": ""}, "prompt"),
        ({"prompt": []}, "prompt"),
        ({"prompt": [1, 97]}, "prompt"),
        ({"prompt": [-1]}, "prompt"),
        ({"stop_token_ids": [97]}, "stop_token_ids"),
        ({"logit_bias": {"97": 1}}, "logit_bias"),
        ({"stop": ["x"] * 1000}, "stop"),
    ],
)
async def test_what_this_model_cannot_take_is_refused(
    rig: Rig, fields: dict[str, Any], param: str
) -> None:
    status, error = await refused(rig, **fields)

    assert status == 400
    assert error["param"] == param


async def test_an_answer_of_one_token_is_fine(rig: Rig) -> None:
    answer = await rig.complete(max_tokens=1)

    assert answer["usage"]["completion_tokens"] == 1


async def test_a_class_that_is_not_served_here_is_refused(rig: Rig) -> None:
    status, answer = await rig.post(FIXED | {"prompt": "x"}, headers={"X-Splitpool-Class": "batch"})

    assert status == 400
    assert "interactive" in answer["error"]["message"]


async def test_unknown_routes_and_methods_are_refused_in_the_same_form(rig: Rig) -> None:
    async with rig.http.get(f"{rig.url}/v1/nothing") as response:
        assert response.status == 404
        assert (await response.json())["error"]["code"] == "not_found"
    async with rig.http.get(f"{rig.url}/v1/completions") as response:
        assert response.status == 405
        assert response.headers["Allow"] == "POST"
        assert (await response.json())["error"]["code"] == "method_not_allowed"


async def test_what_a_repeat_cannot_cure_says_so(rig: Rig) -> None:
    async with rig.http.post(f"{rig.url}/v1/completions", data=b"") as response:
        assert response.headers["x-should-retry"] == "false"


@pytest.mark.parametrize(
    "garbage",
    [b"\x00\xff\x16\x03\x01" * 50 + b"\r\n\r\n", b"GET\r\n\r\n", b"POST / HTTP/9.9\r\n\r\n"],
)
async def test_garbage_on_the_socket_is_answered_with_400(rig: Rig, garbage: bytes) -> None:
    port = int(rig.url.rsplit(":", 1)[1])
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(garbage)

    assert (await reader.read(64)).startswith(b"HTTP/1.0 400")
    writer.close()


async def test_only_the_router_is_let_in_where_there_is_a_token() -> None:
    async with worker(env={"SPLITPOOL_INTERNAL_TOKEN": "secret"}) as rig:
        for token, status in ((None, 401), ("wrong", 401), ("sécret", 401), ("secret", 200)):
            headers = {} if token is None else {"X-Splitpool-Token": token}
            for path, body in (
                ("/v1/completions", FIXED | {"prompt": "x"}),
                ("/tokenize", {"prompt": "x"}),
            ):
                assert (await rig.post(body, path=path, headers=headers))[0] == status
        for path in ("/health", "/ready", "/metrics"):
            async with rig.http.get(rig.url + path) as response:
                assert response.status == 200
        async with rig.http.put(f"{rig.url}/internal/yield", json={}) as response:
            assert response.status == 401
