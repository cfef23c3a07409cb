"""Whole and streamed answers of a worker: text, ends, usage, choices, log probabilities."""

import asyncio
import json
import threading
from typing import Any

import pytest

from fakes.worker_rig import FIXED, Rig, events, expected, numbers, text, worker
from splitpool_worker.engine.batch import Batch

CHAT = FIXED | {"messages": [{"role": "user", "content": "hi"}]}


@pytest.fixture
async def rig() -> Any:
    async with worker() as running:
        yield running


async def test_a_completion_says_what_the_model_says(rig: Rig) -> None:
    answer = await rig.complete("story", max_tokens=20)

    assert answer["choices"][0]["text"] == expected("story", 20)
    assert answer["choices"][0]["finish_reason"] == "length"
    assert answer["usage"] == {
        "prompt_tokens": 5,
        "completion_tokens": 20,
        "total_tokens": 25,
        "prompt_tokens_details": {"cached_tokens": 0},
    }


async def test_a_stream_says_the_same_in_numbered_events_and_ends_once(rig: Rig) -> None:
    async with rig.stream(max_tokens=20) as response:
        found = await events(response)
        assert response.headers["X-Splitpool-Stream-Id"].startswith(rig.service.stream_key + "-")

    assert text(found) == expected("story", 20)
    assert numbers(found) == list(range(len(found)))
    assert [event.data == "[DONE]" for event in found] == [False] * (len(found) - 1) + [True]
    assert json.loads(found[-2].data)["choices"][0]["finish_reason"] == "length"


async def test_a_chat_stream_begins_with_the_role(rig: Rig) -> None:
    body = FIXED | {
        "messages": [{"role": "user", "content": "hi"}],
        "max_tokens": 3,
        "stream": True,
    }
    async with rig.http.post(f"{rig.url}/v1/chat/completions", json=body) as response:
        found = await events(response)

    first = json.loads(found[0].data)
    assert first["object"] == "chat.completion.chunk"
    assert first["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    said = [json.loads(event.data)["choices"][0]["delta"] for event in found[1:-1]]
    assert "".join(delta.get("content", "") for delta in said) == expected(
        "user: hi\nassistant:", 3
    )


async def test_the_timing_line_comes_right_before_the_first_token(rig: Rig) -> None:
    body = FIXED | {
        "messages": [{"role": "user", "content": "hi"}],
        "max_tokens": 2,
        "stream": True,
    }
    async with rig.http.post(f"{rig.url}/v1/chat/completions", json=body) as response:
        lines = (await response.text()).split("\n")

    (at,) = [number for number, line in enumerate(lines) if line.startswith(": splitpool-timing ")]
    assert lines[at - 1] == ""
    assert lines[at + 1] == "id: 1"
    parts = dict(part.split("=") for part in lines[at].split(" ")[2:])
    assert list(parts) == ["parse", "tokenise", "queue", "prefill", "detokenise"]
    assert all(float(seconds) >= 0 for seconds in parts.values())


async def test_text_that_is_held_back_over_a_step_counts_as_detokenising(rig: Rig) -> None:
    held = 0.05
    first, second = list(expected("story", 2))
    begun, opened = threading.Event(), threading.Event()

    def hold(batch: Batch) -> None:
        if len(rig.runner.steps) == 2:
            begun.set()
            opened.wait(60)

    rig.runner.before_step = hold
    stop = first + ("a" if second != "a" else "b")
    async with rig.stream(max_tokens=2, stop=stop) as response:
        await asyncio.to_thread(begun.wait, 60)
        await asyncio.sleep(held)
        opened.set()
        lines = (await response.text()).split("\n")

    (line,) = [line for line in lines if line.startswith(": splitpool-timing ")]
    parts = dict(part.split("=") for part in line.split(" ")[2:])
    assert float(parts["detokenise"]) >= held


async def test_a_whole_answer_carries_its_times_as_a_header(rig: Rig) -> None:
    async with rig.http.post(f"{rig.url}/v1/completions", json=FIXED | {"prompt": "x"}) as response:
        timing = response.headers["Server-Timing"]
        assert response.headers["X-Splitpool-Class"] == "interactive"

    names = [part.split(";dur=")[0] for part in timing.split(", ")]
    assert names == ["parse", "tokenise", "queue", "prefill", "detokenise"]


async def test_a_stop_string_at_every_place_ends_the_text_before_it(rig: Rig) -> None:
    whole = expected("story", 20)
    assert len(whole) == 20  # no token without text, so that letters count tokens
    for at in range(1, 17):
        stop = whole[at : at + 3]
        cut = whole[: whole.index(stop)]

        answer = await rig.complete("story", max_tokens=20, stop=stop)
        async with rig.stream("story", max_tokens=20, stop=[stop, "never"]) as response:
            found = await events(response)

        assert answer["choices"][0]["text"] == text(found) == cut
        assert answer["choices"][0]["finish_reason"] == "stop"
        assert answer["usage"]["completion_tokens"] == len(cut) + 3
    await rig.until(rig.idle)


async def test_the_end_token_ends_the_answer_and_is_counted(rig: Rig) -> None:
    whole = expected("story", 20)

    answer = await rig.complete("story", max_tokens=20, stop_token_ids=[ord(whole[4]) - 32])

    cut = whole[: whole.index(whole[4])]
    assert answer["choices"][0]["text"] == cut
    assert answer["choices"][0]["finish_reason"] == "stop"
    assert answer["usage"]["completion_tokens"] == len(cut) + 1


async def test_the_same_seed_says_the_same_and_choices_differ(rig: Rig) -> None:
    async def draw(**fields: Any) -> list[str]:
        answer = await rig.complete("abc", max_tokens=12, temperature=1.5, **fields)
        return [choice["text"] for choice in answer["choices"]]

    assert await draw(seed=1) == await draw(seed=1)
    assert await draw(seed=1) != await draw(seed=2)
    three = await draw(seed=1, n=3)
    assert three[0] == (await draw(seed=1))[0]
    assert len(set(three)) == 3


async def test_several_prompts_are_answered_in_order_and_counted_together(rig: Rig) -> None:
    answer = await rig.complete(prompt=["ab", "cde"], n=2, max_tokens=4)

    said = [choice["text"] for choice in answer["choices"]]
    assert said == [expected("ab", 4)] * 2 + [expected("cde", 4)] * 2
    assert [choice["index"] for choice in answer["choices"]] == [0, 1, 2, 3]
    assert answer["usage"]["prompt_tokens"] == 5
    assert answer["usage"]["completion_tokens"] == 16


async def test_a_prompt_may_be_token_ids(rig: Rig) -> None:
    ids = rig.service.text.encode("story")

    answer = await rig.complete(prompt=ids, max_tokens=8)

    assert answer["choices"][0]["text"] == expected("story", 8)


async def test_choices_stream_side_by_side_and_each_ends_once(rig: Rig) -> None:
    async with rig.stream("abc", n=3, temperature=1, seed=3, max_tokens=6) as response:
        found = await events(response)

    assert numbers(found) == list(range(len(found)))
    chunks = [json.loads(event.data)["choices"][0] for event in found[:-1]]
    ends = [chunk["index"] for chunk in chunks if chunk["finish_reason"]]
    assert sorted(ends) == [0, 1, 2]


async def test_usage_comes_in_a_chunk_of_its_own_when_asked_for(rig: Rig) -> None:
    options = {"include_usage": True, "continuous_usage_stats": True}
    async with rig.stream(max_tokens=3, stream_options=options) as response:
        found = await events(response)

    bodies = [json.loads(event.data) for event in found[:-1]]
    assert [body["usage"]["completion_tokens"] for body in bodies] == [1, 2, 3, 3]
    assert bodies[-1]["choices"] == []


async def test_a_prompt_seen_before_is_counted_as_cached(rig: Rig) -> None:
    prompt = "a prompt of more than one block"
    await rig.complete(prompt)

    again = await rig.complete(prompt)

    cached = again["usage"]["prompt_tokens_details"]["cached_tokens"]
    assert 0 < cached < len(prompt)


async def test_callers_do_not_share_cached_prompts(rig: Rig) -> None:
    body = FIXED | {"prompt": "a prompt of more than one block"}
    await rig.post(body, headers={"X-Splitpool-Caller": "one"})

    _, other = await rig.post(body, headers={"X-Splitpool-Caller": "two"})

    assert other["usage"]["prompt_tokens_details"]["cached_tokens"] == 0


async def test_log_probabilities_belong_to_the_text(rig: Rig) -> None:
    answer = await rig.complete("story", max_tokens=6, logprobs=2)

    choice = answer["choices"][0]
    assert "".join(choice["logprobs"]["tokens"]) == choice["text"]
    assert choice["logprobs"]["text_offset"] == [0, 1, 2, 3, 4, 5]
    for token, best in zip(
        choice["logprobs"]["tokens"], choice["logprobs"]["top_logprobs"], strict=True
    ):
        assert max(best, key=best.get) == token  # greedy


async def test_streamed_log_probabilities_are_those_of_the_whole_answer(rig: Rig) -> None:
    whole = (await rig.complete("story", max_tokens=6, logprobs=1))["choices"][0]["logprobs"]
    async with rig.stream("story", max_tokens=6, logprobs=1) as response:
        found = await events(response)

    parts = [json.loads(event.data)["choices"][0]["logprobs"] for event in found[:-1]]
    for name, values in whole.items():
        assert [value for part in parts if part for value in part[name]] == values


async def test_a_class_that_does_not_stream_gathers_events() -> None:
    async with worker(classes=("batch",)) as rig, rig.stream(max_tokens=40) as response:
        found = await events(response)

    assert text(found) == expected("story", 40)
    assert numbers(found) == list(range(len(found)))
    assert len(found) < 40


async def test_the_models_the_worker_serves_are_listed(rig: Rig) -> None:
    async with rig.http.get(f"{rig.url}/v1/models") as response:
        assert [model["id"] for model in (await response.json())["data"]] == ["toy"]


async def test_tokenize_counts_texts_and_chats(rig: Rig) -> None:
    _, plain = await rig.post({"prompt": "story"}, path="/tokenize")
    _, chat = await rig.post({"messages": [{"role": "user", "content": "hi"}]}, path="/tokenize")

    assert plain["count"] == len(plain["tokens"]) == 5
    assert chat["count"] == len("user: hi\nassistant:")
