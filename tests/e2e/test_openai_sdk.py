"""The openai SDK, unmodified, through the router to a real model."""

from collections.abc import Iterator

import openai
import pytest
from openai import OpenAI

from splitpool_bench.chain import Chain

QUESTION = "What is the capital of France?"


@pytest.fixture
def client(split: Chain) -> Iterator[OpenAI]:
    with OpenAI(base_url=f"{split.url}/v1", api_key="any", max_retries=0, timeout=120) as sdk:
        yield sdk


def test_a_completion_goes_on_with_what_the_model_knows(client: OpenAI, split: Chain) -> None:
    answer = client.completions.create(
        model=split.model, prompt="The capital of France is", temperature=0, max_tokens=4
    )

    assert answer.choices[0].text.startswith(" Paris")
    assert answer.choices[0].finish_reason == "length"
    assert answer.usage is not None
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (5, 4)
    assert answer.usage.total_tokens == 9


def test_a_chat_is_put_into_the_models_own_template(client: OpenAI, split: Chain) -> None:
    answer = client.chat.completions.create(
        model=split.model,
        messages=[{"role": "user", "content": QUESTION}],
        temperature=0,
        max_tokens=24,
    )

    assert answer.choices[0].message.role == "assistant"
    assert answer.choices[0].message.content
    assert answer.choices[0].finish_reason in {"stop", "length"}
    assert answer.usage is not None
    assert answer.usage.prompt_tokens == 37  # the question has 7; the template brings the rest


def test_a_streamed_chat_says_the_same_and_ends_with_usage(client: OpenAI, split: Chain) -> None:
    whole = client.chat.completions.create(
        model=split.model,
        messages=[{"role": "user", "content": QUESTION}],
        temperature=0,
        max_tokens=16,
        extra_headers={"X-Splitpool-Class": "interactive"},
    )

    chunks = list(
        client.chat.completions.create(
            model=split.model,
            messages=[{"role": "user", "content": QUESTION}],
            temperature=0,
            max_tokens=16,
            stream=True,
            stream_options={"include_usage": True},
        )
    )

    said = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
    assert said == whole.choices[0].message.content
    assert chunks[0].choices[0].delta.role == "assistant"
    assert [c.choices[0].finish_reason for c in chunks if c.choices][-1] in {"stop", "length"}
    assert chunks[-1].choices == []
    assert chunks[-1].usage is not None
    assert whole.usage is not None
    assert chunks[-1].usage.completion_tokens == whole.usage.completion_tokens


def test_without_asking_for_usage_no_chunk_carries_it(client: OpenAI, split: Chain) -> None:
    chunks = list(
        client.completions.create(model=split.model, prompt="The sea", max_tokens=3, stream=True)
    )

    assert all(chunk.usage is None for chunk in chunks)
    assert all(chunk.choices for chunk in chunks)


def test_a_stop_string_ends_the_answer_and_is_not_in_it(client: OpenAI, split: Chain) -> None:
    def count(stop: str | None) -> str:
        answer = client.completions.create(
            model=split.model,
            prompt="one two three four five six one two three four five six one two three",
            temperature=0,
            max_tokens=12,
            stop=stop,
        )
        assert answer.choices[0].finish_reason == ("stop" if stop else "length")
        return answer.choices[0].text

    whole = count(None)
    word = whole.split()[1]

    assert count(word) == whole[: whole.index(word)]


def test_a_seed_repeats_its_answer_and_another_seed_differs(client: OpenAI, split: Chain) -> None:
    def draw(seed: int) -> str:
        answer = client.completions.create(
            model=split.model, prompt="My favourite", max_tokens=16, temperature=1.2, seed=seed
        )
        return answer.choices[0].text

    assert draw(1) == draw(1)
    assert len({draw(1), draw(2), draw(3)}) > 1


def test_several_choices_are_independent_draws(client: OpenAI, split: Chain) -> None:
    answer = client.completions.create(
        model=split.model, prompt="My favourite", max_tokens=12, temperature=1.2, n=3, seed=5
    )

    assert sorted(choice.index for choice in answer.choices) == [0, 1, 2]
    assert len({choice.text for choice in answer.choices}) > 1
    assert answer.usage is not None
    assert 3 <= answer.usage.completion_tokens <= 36


def test_several_choices_stream_side_by_side(client: OpenAI, split: Chain) -> None:
    finished: dict[int, str] = {}

    for chunk in client.completions.create(
        model=split.model, prompt="My favourite", max_tokens=6, temperature=1, n=2, stream=True
    ):
        for choice in chunk.choices:
            if choice.finish_reason:
                assert choice.index not in finished
                finished[choice.index] = choice.finish_reason

    assert sorted(finished) == [0, 1]


def test_chat_logprobs_name_each_token_and_its_rivals(client: OpenAI, split: Chain) -> None:
    answer = client.chat.completions.create(
        model=split.model,
        messages=[{"role": "user", "content": QUESTION}],
        temperature=0,
        max_tokens=5,
        logprobs=True,
        top_logprobs=2,
    )

    logprobs = answer.choices[0].logprobs
    assert logprobs is not None
    assert logprobs.content is not None
    assert "".join(token.token for token in logprobs.content) == answer.choices[0].message.content
    for token in logprobs.content:
        assert token.logprob <= 0
        assert token.top_logprobs[0].logprob == token.logprob  # greedy, maybe by a tie
        assert token.token in {rival.token for rival in token.top_logprobs}
        assert token.top_logprobs[0].logprob >= token.top_logprobs[1].logprob


def test_completion_logprobs_come_token_by_token(client: OpenAI, split: Chain) -> None:
    answer = client.completions.create(
        model=split.model, prompt="The sea is", temperature=0, max_tokens=4, logprobs=2
    )

    logprobs = answer.choices[0].logprobs
    assert logprobs is not None
    assert logprobs.tokens is not None
    assert logprobs.token_logprobs is not None
    assert "".join(logprobs.tokens) == answer.choices[0].text
    assert len(logprobs.token_logprobs) == len(logprobs.tokens) == 4


def test_the_model_list_comes_from_the_pool_file(client: OpenAI, split: Chain) -> None:
    assert [model.id for model in client.models.list()] == [split.model]


def test_an_unknown_model_is_a_not_found_error(client: OpenAI) -> None:
    with pytest.raises(openai.NotFoundError) as refused:
        client.completions.create(model="no-such-model", prompt="x")

    assert refused.value.code == "model_not_found"


def test_a_client_that_closes_its_stream_may_ask_again(client: OpenAI, split: Chain) -> None:
    stream = client.completions.create(
        model=split.model, prompt="The sea", max_tokens=200, stream=True
    )
    next(iter(stream))
    stream.close()

    again = client.completions.create(model=split.model, prompt="The sea", max_tokens=2)

    assert again.usage is not None
    assert again.usage.completion_tokens <= 2
