"""The openai SDK, unmodified, against a worker."""

from collections.abc import AsyncIterator
from typing import Any

import openai
import pytest
from openai import AsyncOpenAI

from fakes.worker_rig import RESUMABLE, Rig, expected, hold_after, worker
from splitpool_worker.api.service import Intervals

MESSAGES: Any = [{"role": "user", "content": "yo"}]
PROMPT = "user: yo\nassistant:"
FIXED: Any = {"extra_body": {"ignore_eos": True}, "temperature": 0}


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    quick = Intervals(heartbeat=0.01, sweep=0.01, closing=1.0)
    async with worker(intervals=quick) as running:
        yield running


@pytest.fixture
async def client(rig: Rig) -> AsyncIterator[AsyncOpenAI]:
    async with AsyncOpenAI(base_url=f"{rig.url}/v1", api_key="any", max_retries=0) as sdk:
        yield sdk


async def test_a_chat_is_answered_with_usage(client: AsyncOpenAI) -> None:
    answer = await client.chat.completions.create(
        model="toy", messages=MESSAGES, max_tokens=6, **FIXED
    )

    assert answer.choices[0].message.content == expected(PROMPT, 6)
    assert answer.choices[0].finish_reason == "length"
    assert answer.usage is not None
    assert answer.usage.total_tokens == len(PROMPT) + 6
    assert answer.usage.prompt_tokens_details is not None
    assert answer.usage.prompt_tokens_details.cached_tokens == 0


async def test_a_streamed_chat_survives_pings_and_event_numbers(
    rig: Rig, client: AsyncOpenAI
) -> None:
    stream = await client.chat.completions.create(
        model="toy",
        messages=MESSAGES,
        max_tokens=6,
        stream=True,
        stream_options={"include_usage": True},
        extra_headers=RESUMABLE,
        **FIXED,
    )
    said = ""
    async for chunk in stream:
        opened = hold_after(rig.runner, 0)  # pings come between any two events
        if chunk.choices:
            said += chunk.choices[0].delta.content or ""
        opened.set()

    assert said == expected(PROMPT, 6)
    assert chunk.usage is not None
    assert chunk.usage.completion_tokens == 6


async def test_a_completion_stops_at_a_stop_string(client: AsyncOpenAI) -> None:
    whole = expected("story", 20)

    answer = await client.completions.create(
        model="toy", prompt="story", max_tokens=20, stop=[whole[5:8]], **FIXED
    )

    assert answer.choices[0].text == whole[:5]
    assert answer.choices[0].finish_reason == "stop"


async def test_a_seed_repeats_its_answer(client: AsyncOpenAI) -> None:
    async def draw(seed: int) -> str:
        answer = await client.completions.create(
            model="toy", prompt="story", max_tokens=12, temperature=1.5, seed=seed
        )
        return answer.choices[0].text

    assert await draw(1) == await draw(1)
    assert await draw(1) != await draw(2)


async def test_chat_log_probabilities_name_each_token_and_its_rivals(client: AsyncOpenAI) -> None:
    answer = await client.chat.completions.create(
        model="toy", messages=MESSAGES, max_tokens=5, logprobs=True, top_logprobs=2, **FIXED
    )

    logprobs = answer.choices[0].logprobs
    assert logprobs is not None
    assert logprobs.content is not None
    assert "".join(entry.token for entry in logprobs.content) == answer.choices[0].message.content
    for entry in logprobs.content:
        assert entry.bytes == list(entry.token.encode())
        assert entry.top_logprobs[0].token == entry.token
        assert entry.top_logprobs[0].logprob >= entry.top_logprobs[1].logprob


async def test_errors_arrive_as_the_sdks_own(client: AsyncOpenAI) -> None:
    with pytest.raises(openai.NotFoundError) as missing:
        await client.completions.create(model="other", prompt="x")
    with pytest.raises(openai.BadRequestError) as bad:
        await client.completions.create(model="toy", prompt="x", temperature=-1)

    assert missing.value.code == "model_not_found"
    assert bad.value.param == "temperature"


async def test_an_error_in_the_middle_of_a_stream_arrives_too(
    rig: Rig, client: AsyncOpenAI
) -> None:
    def fail(batch: object) -> None:
        if len(rig.runner.steps) > 3:
            raise RuntimeError("the model broke")

    rig.runner.before_step = fail
    stream = await client.completions.create(
        model="toy", prompt="story", max_tokens=20, stream=True, **FIXED
    )

    with pytest.raises(openai.APIError) as broken:
        async for _ in stream:
            pass

    assert broken.value.code == "engine_error"
