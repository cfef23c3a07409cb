"""Reading a request leniently, and what it will cost in tokens."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from splitpool_router.errors import BadRequest
from splitpool_router.fleet.estimate import Estimator
from splitpool_router.forwarding.ask import MAX_VALUES, Ask, parse


def ask(**fields: object) -> Ask:
    return parse(json.dumps({"model": "m", **fields}).encode())


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b"7", b"\xff\xfe{}", b'{"model": "\xc3"}', b"[" * 100_000, b'{"model": 1e}'],
)
def test_a_body_that_is_no_json_object_is_refused(body: bytes) -> None:
    with pytest.raises(BadRequest):
        parse(body)


@pytest.mark.parametrize("value", [b"1", b"[]", b"{}", b"[[]]", b'""'])
def test_a_body_of_endlessly_many_values_is_refused_before_they_are_read(value: bytes) -> None:
    values = b",".join([value] * (MAX_VALUES + 1))
    with pytest.raises(BadRequest, match=str(MAX_VALUES)):
        parse(b'{"model": "m", "x": [%s]}' % values)


def test_a_prompt_of_a_million_token_ids_is_read() -> None:
    assert ask(prompt=[1] * 2**20).prompt_tokens == 2**20


@pytest.mark.parametrize("model", ["", None, 3, ["m"]])
def test_a_missing_model_is_refused_by_its_name(model: object) -> None:
    with pytest.raises(BadRequest, match="`model`") as refused:
        parse(json.dumps({"model": model}).encode())
    assert refused.value.param == "model"


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["role", "content", "text"]), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(
    st.dictionaries(
        st.sampled_from(["messages", "prompt", "n", "max_tokens", "tools", "stream"]), json_values
    )
)
def test_whatever_the_other_fields_are_a_request_with_a_model_is_read(
    fields: dict[str, object],
) -> None:
    read = ask(**fields)
    assert read.copies >= 1
    assert read.cost(Estimator(), max_model_len=100) <= read.copies * 100


def test_text_is_counted_in_bytes_of_utf8_in_every_message_part() -> None:
    plain = ask(messages=[{"role": "user", "content": "aaaa"}])
    parts = ask(messages=[{"role": "user", "content": [{"type": "text", "text": "ä" * 2}]}])
    assert plain.text_bytes + len("text") == parts.text_bytes


def test_prompts_given_as_token_ids_are_counted_exactly() -> None:
    assert ask(prompt=[1, 2, 3], max_tokens=5).cost(Estimator(), max_model_len=None) == 8
    both = ask(prompt=[[1, 2], [3]], max_tokens=5)
    assert both.cost(Estimator(), max_model_len=None) == 3 + 2 * 5


def test_n_answers_cost_their_tokens_n_times() -> None:
    one, three = ask(prompt=[1], max_tokens=10), ask(prompt=[1], max_tokens=10, n=3)
    assert one.cost(Estimator(), max_model_len=None) == 11
    assert three.cost(Estimator(), max_model_len=None) == 31


def test_a_cost_never_exceeds_what_a_worker_can_hold_for_the_request() -> None:
    huge = ask(prompt="x" * 10_000, max_tokens=10**9)
    assert huge.cost(Estimator(), max_model_len=2048) == 2048


def test_the_next_turn_of_a_conversation_has_the_same_prefix() -> None:
    first = [{"role": "system", "content": "be brief"}, {"role": "user", "content": "hello"}]
    later = [*first, {"role": "assistant", "content": "hi"}, {"role": "user", "content": "more"}]
    assert ask(messages=first).prefix == ask(messages=later).prefix
    other = [{"role": "system", "content": "be brief"}, {"role": "user", "content": "bye"}]
    assert ask(messages=first).prefix != ask(messages=other).prefix


def test_prompts_of_different_token_ids_have_different_prefixes() -> None:
    assert ask(prompt=[1, 2, 3]).prefix != ask(prompt=[4, 5, 6]).prefix


@given(st.floats(1.5, 12), st.lists(st.integers(50, 5000), min_size=5, max_size=10))
def test_the_ratio_is_learned_from_usage(ratio: float, sizes: list[int]) -> None:
    estimator = Estimator()
    for tokens in sizes * 60:
        estimator.learn_prompt(text_bytes=round(tokens * ratio), tokens=tokens)
    assert estimator.tokens(round(1000 * ratio)) == pytest.approx(1000, rel=0.05)


def test_nonsense_in_usage_teaches_nothing() -> None:
    estimator = Estimator()
    before = estimator.bytes_per_token
    estimator.learn_prompt(text_bytes=0, tokens=5)
    estimator.learn_prompt(text_bytes=5, tokens=0)
    assert estimator.bytes_per_token == before
    for _ in range(500):
        estimator.learn_prompt(text_bytes=10**9, tokens=1)
    assert estimator.bytes_per_token == 16


def test_answers_without_a_limit_are_estimated_by_those_that_came() -> None:
    estimator = Estimator()
    for _ in range(200):
        estimator.learn_answer(40)
    assert estimator.answer_tokens == pytest.approx(40, abs=1)
