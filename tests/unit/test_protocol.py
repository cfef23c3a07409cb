"""What an OpenAI body asks for, and the words with which bad ones are refused."""

import json
from typing import Any

import pytest

from splitpool_worker.api.errors import ApiError
from splitpool_worker.api.protocol import Call, parse_chat, parse_completion

CHAT = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
COMPLETION = {"model": "m", "prompt": "hi"}


def chat(**fields: Any) -> Call:
    return parse_chat(json.dumps(CHAT | fields).encode())


def completion(**fields: Any) -> Call:
    return parse_completion(json.dumps(COMPLETION | fields).encode())


def refusal(parse: Any, **fields: Any) -> dict[str, Any]:
    with pytest.raises(ApiError) as refused:
        parse(**fields)
    assert refused.value.status == 400
    error: dict[str, Any] = refused.value.body()["error"]
    assert error["type"] == "invalid_request_error"
    return error


def test_defaults_are_those_of_openai() -> None:
    call = chat()

    assert (call.n, call.stream, call.max_tokens, call.seed, call.stop) == (
        1,
        False,
        None,
        None,
        (),
    )
    assert call.sampling.temperature == call.sampling.top_p == 1.0
    assert call.sampling.logprobs is None


def test_null_means_the_default() -> None:
    assert chat(temperature=None, max_tokens=None, stop=None, tools=None) == chat()


def test_an_answer_without_a_limit_gets_the_room_there_is_and_a_completion_sixteen_tokens() -> None:
    assert chat().limit(100) == 100
    assert completion().limit(100) == 16
    assert completion().limit(5) == 5
    assert completion(max_tokens=50).limit(5) == 50


def test_max_completion_tokens_is_the_newer_name() -> None:
    assert chat(max_tokens=5, max_completion_tokens=7).max_tokens == 7


def test_text_parts_become_the_messages_text_and_developer_is_the_newer_name_of_system() -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]

    call = chat(
        messages=[{"role": "developer", "content": "x"}, {"role": "user", "content": parts}]
    )

    assert call.messages == (
        {"role": "system", "content": "x"},
        {"role": "user", "content": "a\nb"},
    )


@pytest.mark.parametrize(
    ("prompt", "prompts"),
    [
        ("a", ("a",)),
        (["a", "b"], ("a", "b")),
        ([1, 2], ((1, 2),)),
        ([[1, 2], [3]], ((1, 2), (3,))),
    ],
)
def test_a_prompt_is_text_or_token_ids_one_or_several(prompt: Any, prompts: Any) -> None:
    assert completion(prompt=prompt).prompts == prompts


def test_log_probabilities_are_asked_for_in_two_ways() -> None:
    assert chat(logprobs=True).sampling.logprobs == 0
    assert chat(logprobs=True, top_logprobs=3).sampling.logprobs == 3
    assert chat(logprobs=False).sampling.logprobs is None
    assert completion(logprobs=2).sampling.logprobs == 2
    assert completion(logprobs=0).sampling.logprobs == 0


def test_what_vllm_clients_send_is_understood() -> None:
    call = completion(
        top_k=-1, min_p=0.1, repetition_penalty=1.2, ignore_eos=True, min_tokens=3, max_tokens=4
    )

    assert call.sampling.top_k == 0
    assert call.sampling.min_p == 0.1
    assert call.sampling.repetition_penalty == 1.2
    assert call.sampling.ignore_eos
    assert call.sampling.min_tokens == 3


def test_logit_bias_names_tokens_as_strings() -> None:
    assert completion(logit_bias={"5": -100, "7": 1.5}).sampling.logit_bias == ((5, -100), (7, 1.5))


def test_unknown_fields_and_those_without_effect_are_ignored() -> None:
    call = chat(
        user="u", metadata={"a": 1}, store=True, service_tier="flex", made_up=[1], priority=9
    )

    assert call.service_tier == "flex"


@pytest.mark.parametrize(
    ("fields", "param", "said"),
    [
        ({"temperature": -1}, "temperature", ("-1", "0")),
        ({"temperature": 2.1}, "temperature", ("2.1", "2")),
        ({"temperature": "hot"}, "temperature", ("hot", "number")),
        ({"top_p": 0}, "top_p", ("0",)),
        ({"top_p": 1.5}, "top_p", ("1.5", "1")),
        ({"min_p": 2}, "min_p", ("2", "1")),
        ({"n": 0}, "n", ("0", "1")),
        ({"n": 129}, "n", ("129", "128")),
        ({"max_tokens": 0}, "max_tokens", ("0", "1")),
        ({"max_tokens": -5}, "max_tokens", ("-5", "1")),
        ({"max_tokens": True}, "max_tokens", ("True", "integer")),
        ({"max_tokens": 1.5}, "max_tokens", ("1.5", "integer")),
        ({"seed": 2**64}, "seed", (str(2**64),)),
        ({"stop": ["x"] * 1000}, "stop", ("1000", "16")),
        ({"stop": ["x" * 300]}, "stop", ("300", "256")),
        ({"stop": [""]}, "stop", ("empty",)),
        ({"stop": 7}, "stop", ("string",)),
        ({"logit_bias": {"1": 101}}, "logit_bias", ("100",)),
        ({"logit_bias": {"one": 1}}, "logit_bias", ("token ids",)),
        ({"logit_bias": {str(i): 0 for i in range(2000)}}, "logit_bias", ("2000", "1024")),
        ({"presence_penalty": 3}, "presence_penalty", ("3", "2")),
        ({"logit_bias": {"1": 10**400}}, "logit_bias", ("numbers",)),
        ({"repetition_penalty": 0}, "repetition_penalty", ("0", "0.01")),
        ({"repetition_penalty": 1e-300}, "repetition_penalty", ("1e-300", "0.01")),
        ({"min_tokens": 5, "max_tokens": 4}, "min_tokens", ("5", "4")),
        ({"stream_options": {"include_usage": True}}, "stream_options", ("stream",)),
        ({"stream": "yes"}, "stream", ("yes", "boolean")),
        ({"model": 5}, "model", ("5", "string")),
        ({"model": None}, "model", ("missing",)),
    ],
)
@pytest.mark.parametrize("parse", [chat, completion])
def test_a_value_out_of_range_is_refused_with_name_value_and_limit(
    parse: Any, fields: dict[str, Any], param: str, said: tuple[str, ...]
) -> None:
    error = refusal(parse, **fields)

    assert error["param"] == param
    assert all(part in error["message"] for part in (param, *said))


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"messages": []}, "messages"),
        ({"messages": None}, "messages"),
        ({"messages": "hi"}, "messages"),
        ({"messages": [{"role": "user"}]}, "messages.0.content"),
        ({"messages": [{"role": "tool", "content": "x"}]}, "messages.0.role"),
        (
            {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]},
            "messages.0.content",
        ),
        ({"logprobs": True, "top_logprobs": 21}, "top_logprobs"),
        ({"top_logprobs": 2}, "top_logprobs"),
    ],
)
def test_a_chat_that_cannot_be_is_refused_by_the_place_of_the_fault(
    fields: dict[str, Any], param: str
) -> None:
    assert refusal(chat, **fields)["param"] == param


@pytest.mark.parametrize("prompt", [None, [], 5, {"a": 1}, [1, "a"], [[1], "a"], ["a"] * 129])
def test_a_prompt_of_another_shape_is_refused(prompt: Any) -> None:
    assert refusal(completion, prompt=prompt)["param"] == "prompt"


def test_all_answers_of_a_request_together_are_bounded() -> None:
    error = refusal(completion, prompt=["a"] * 100, n=2)

    assert error["param"] == "n"
    assert "200" in error["message"]
    assert "128" in error["message"]


@pytest.mark.parametrize(
    "fields",
    [
        {"tools": [{"type": "function"}]},
        {"response_format": {"type": "json_object"}},
        {"echo": True},
        {"suffix": "end"},
        {"best_of": 3},
        {"functions": [{}]},
        {"guided_json": {}},
        {"chat_template": "{{ evil }}"},
        {"use_beam_search": True},
        {"prompt_logprobs": 1},
    ],
)
@pytest.mark.parametrize("parse", [chat, completion])
def test_what_would_change_the_answer_and_is_not_supported_is_refused(
    parse: Any, fields: dict[str, Any]
) -> None:
    error = refusal(parse, **fields)

    assert error["param"] == next(iter(fields))
    assert error["code"] == "unsupported_parameter"


@pytest.mark.parametrize(
    "fields",
    [
        {"tools": []},
        {"tool_choice": "none"},
        {"response_format": {"type": "text"}},
        {"echo": False},
        {"best_of": 1},
    ],
)
def test_unsupported_fields_that_ask_for_nothing_are_fine(fields: dict[str, Any]) -> None:
    assert chat(**fields) == chat()


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b'{"model":', id="cut"),
        pytest.param(b"[]", id="no object"),
        pytest.param(b"null", id="null"),
        pytest.param(b'{"model": "m", "prompt": "\xff"}', id="not UTF-8"),
        pytest.param(b'{"model": "m", "prompt": "\\ud800"}', id="half a character"),
        pytest.param(b'{"model": "m", "prompt": "x", "temperature": NaN}', id="NaN"),
        pytest.param(b"[" * 100_000, id="too deep"),
    ],
)
def test_a_body_that_is_no_json_object_is_refused(body: bytes) -> None:
    with pytest.raises(ApiError) as refused:
        parse_completion(body)

    assert refused.value.status == 400
    assert refused.value.code == "invalid_json"
