"""Streams that are cut and continued through the router: every token once, no step run twice."""

import uuid
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from e2e.asking import (
    DONE,
    RESUMABLE,
    STORY,
    completion,
    forwarded,
    idle,
    numbers,
    read,
    resume,
    stream,
    text,
    until,
)
from fakes.event_source import Event, EventSource
from splitpool_bench.chain import Chain

TOKENS = 8
USAGE: dict[str, Any] = {"stream_options": {"include_usage": True}}


@pytest.fixture
async def whole(http: aiohttp.ClientSession, split: Chain) -> AsyncIterator[list[Event]]:
    """The events of the stream when nothing cuts it."""
    async with stream(http, split, max_tokens=TOKENS, **USAGE) as response:
        yield await read(response)


async def test_events_are_numbered_from_zero_to_done(whole: list[Event]) -> None:
    assert numbers(whole) == list(range(len(whole)))
    assert [event.data == DONE for event in whole] == [False] * (len(whole) - 1) + [True]


async def test_cut_at_any_event_and_resumed_by_its_number(
    http: aiohttp.ClientSession, split: Chain, whole: list[Event]
) -> None:
    for cut in range(len(whole)):
        async with stream(http, split, RESUMABLE, max_tokens=TOKENS, **USAGE) as response:
            key = response.headers["X-Splitpool-Stream-Id"]
            had = await read(response, limit=cut)
        query = {"starting_after": cut - 1} if cut else {}

        status, rest = await resume(http, split, key, query)

        assert status == 200
        assert numbers(had + rest) == numbers(whole)
        assert text(had + rest) == text(whole)


@pytest.mark.parametrize("latency_class", ["interactive", "batch"])
async def test_cut_after_any_token_and_resumed_by_the_tokens_received(
    http: aiohttp.ClientSession, split: Chain, latency_class: str
) -> None:
    """Batch gathers several tokens into an event, so that its cuts fall inside of events too."""
    headers = {"X-Splitpool-Class": latency_class}
    tokens = await token_texts(http, split, headers)
    async with stream(http, split, RESUMABLE | headers, max_tokens=TOKENS) as response:
        key = response.headers["X-Splitpool-Stream-Id"]
        assert text(await read(response)) == "".join(tokens)

    for received in range(TOKENS):
        status, rest = await resume(http, split, key, {"received_tokens": received})

        assert status == 200
        assert text(rest) == "".join(tokens[received:])
        assert rest[-1].data == DONE


async def token_texts(
    http: aiohttp.ClientSession, chain: Chain, headers: dict[str, str]
) -> list[str]:
    body = completion(chain, max_tokens=TOKENS, logprobs=0)
    async with http.post(f"{chain.url}/v1/completions", json=body, headers=headers) as response:
        choice = (await response.json())["choices"][0]
    tokens: list[str] = choice["logprobs"]["tokens"]
    assert "".join(tokens) == choice["text"]
    return tokens


async def test_an_event_source_that_knows_only_its_own_request_id_reads_every_token_once(
    http: aiohttp.ClientSession, split: Chain, whole: list[Event]
) -> None:
    for cut in range(1, len(whole)):
        request_id = uuid.uuid4().hex
        async with stream(
            http, split, RESUMABLE | {"X-Request-Id": request_id}, max_tokens=TOKENS, **USAGE
        ):
            pass  # gone before anything was read
        source = EventSource(http, f"{split.url}/v1/streams/{request_id}")
        events: list[Event] = []
        while not source.closed:
            events += await source.connect(cut_after=cut)

        assert numbers(events) == numbers(whole)
        assert text(events) == text(whole)


async def test_however_often_a_stream_is_cut_the_model_sees_each_token_once(
    http: aiohttp.ClientSession, split: Chain
) -> None:
    prompt = f"{uuid.uuid4()} {STORY}"  # nothing of it is cached
    before = sum(forwarded(split, "interactive"))
    async with stream(http, split, RESUMABLE, prompt=prompt, max_tokens=24) as response:
        key = response.headers["X-Splitpool-Stream-Id"]
        events = await read(response, limit=2)
    while events[-1].data != DONE:
        url = f"{split.url}/v1/streams/{key}"
        async with http.get(url, params={"starting_after": numbers(events)[-1]}) as response:
            events += await read(response, limit=3)
            response.close()

    async with http.post(
        f"{split.url}/tokenize", json={"model": split.model, "prompt": prompt}
    ) as response:
        prompt_tokens = (await response.json())["count"]
    assert numbers(events) == list(range(len(events)))
    # The last token is sampled and never put through the model.
    assert sum(forwarded(split, "interactive")) - before == prompt_tokens + 24 - 1


async def test_who_has_the_last_event_is_told_that_nothing_is_left(
    http: aiohttp.ClientSession, split: Chain
) -> None:
    async with stream(http, split, RESUMABLE, max_tokens=3) as response:
        key = response.headers["X-Splitpool-Stream-Id"]
        events = await read(response)

    status, _ = await resume(http, split, key, {"starting_after": numbers(events)[-1]})

    assert status == 204


async def test_the_larger_of_query_and_last_event_id_wins(
    http: aiohttp.ClientSession, split: Chain
) -> None:
    async with stream(http, split, RESUMABLE, max_tokens=6) as response:
        key = response.headers["X-Splitpool-Stream-Id"]
        await read(response)

    for query, header in ((1, "3"), (3, "1")):
        _, rest = await resume(
            http, split, key, {"starting_after": query}, {"Last-Event-ID": header}
        )
        assert numbers(rest)[0] == 4


async def test_streams_of_others_and_unknown_ones_are_not_found(
    http: aiohttp.ClientSession, split: Chain
) -> None:
    mine = {"Authorization": "Bearer mine"}
    async with stream(http, split, RESUMABLE | mine, max_tokens=3) as response:
        key = response.headers["X-Splitpool-Stream-Id"]
        await read(response)

    assert (await resume(http, split, key, {}, {"Authorization": "Bearer other"}))[0] == 404
    assert (await resume(http, split, key, {}))[0] == 404
    assert (await resume(http, split, "no-such-stream", {}, mine))[0] == 404
    assert (await resume(http, split, key, {}, mine))[0] == 200


async def test_events_that_fell_out_of_the_ring_are_gone(
    http: aiohttp.ClientSession, small: Chain
) -> None:
    async with stream(http, small, RESUMABLE, max_tokens=60) as response:
        key = response.headers["X-Splitpool-Stream-Id"]
        last = numbers(await read(response))[-1]

    assert (await resume(http, small, key, {"starting_after": 0}))[0] == 410
    assert (await resume(http, small, key, {"received_tokens": 1}))[0] == 410
    status, rest = await resume(http, small, key, {"starting_after": last - 2})
    assert (status, numbers(rest)) == (200, [last - 1, last])


async def test_a_stream_is_forgotten_after_its_window(
    http: aiohttp.ClientSession, small: Chain
) -> None:
    async with stream(http, small, RESUMABLE, max_tokens=2) as response:
        key = response.headers["X-Splitpool-Stream-Id"]
        await read(response)

    # Asking for the stream would lengthen its window; the worker's own count does not.
    await until(lambda: nothing_kept(http, small))

    assert (await resume(http, small, key, {}))[0] == 404


async def nothing_kept(http: aiohttp.ClientSession, chain: Chain) -> bool:
    (worker,) = chain.workers()
    async with http.get(f"{worker.url}/metrics") as response:
        text = await response.text()
    (line,) = (x for x in text.splitlines() if x.startswith("splitpool_worker_replay_buffer_bytes"))
    return float(line.split()[-1]) == 0


async def test_a_stream_that_did_not_ask_cannot_be_resumed(
    http: aiohttp.ClientSession, split: Chain
) -> None:
    async with stream(http, split, max_tokens=200) as response:
        key = response.headers["X-Splitpool-Stream-Id"]
        await read(response, limit=2)

    assert (await resume(http, split, key, {}))[0] == 404


async def test_delete_stops_a_stream_and_may_be_repeated(
    http: aiohttp.ClientSession, split: Chain
) -> None:
    url = f"{split.url}/v1/streams"
    async with stream(http, split, RESUMABLE, max_tokens=1500) as response:
        key = response.headers["X-Splitpool-Stream-Id"]
        await read(response, limit=2)

        statuses = []
        for _ in range(2):
            async with http.delete(f"{url}/{key}") as deleted:
                statuses.append(deleted.status)
        rest = await read(response)

    assert all(200 <= status < 300 for status in statuses)
    assert len(rest) < 1400
    await until(lambda: idle(http, split, "interactive"))


async def test_a_second_reader_replaces_the_first(
    http: aiohttp.ClientSession, split: Chain
) -> None:
    async with stream(http, split, RESUMABLE, max_tokens=120) as first:
        key = first.headers["X-Splitpool-Stream-Id"]
        had = await read(first, limit=2)

        status, rest = await resume(http, split, key, {"starting_after": numbers(had)[-1]})

        left_over = await read(first)
    assert status == 200
    assert numbers(had + rest) == list(range(len(had + rest)))
    assert rest[-1].data == DONE
    assert DONE not in {event.data for event in left_over}


async def test_a_live_request_id_cannot_be_used_twice(
    http: aiohttp.ClientSession, split: Chain
) -> None:
    headers = RESUMABLE | {"X-Request-Id": uuid.uuid4().hex}
    body = completion(split, max_tokens=4) | {"stream": True}
    async with (
        stream(http, split, headers, max_tokens=400),
        http.post(f"{split.url}/v1/completions", json=body, headers=headers) as again,
    ):
        assert again.status == 409
        assert (await again.json())["error"]["code"] == "duplicate_request_id"

    async with http.delete(f"{split.url}/v1/streams/{headers['X-Request-Id']}") as deleted:
        assert deleted.status < 300


async def test_several_choices_cannot_be_resumed(http: aiohttp.ClientSession, split: Chain) -> None:
    body = completion(split, n=2, temperature=1) | {"stream": True}
    async with http.post(f"{split.url}/v1/completions", json=body, headers=RESUMABLE) as refused:
        assert refused.status == 400
        assert "n" in (await refused.json())["error"]["message"]
