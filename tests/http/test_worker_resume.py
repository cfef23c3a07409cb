"""Streams that are cut and continued: every event once, every token once, only for their caller."""

import asyncio
import json
from typing import Any
from uuid import uuid4

import pytest

from fakes.event_source import Event
from fakes.worker_rig import (
    FIXED,
    RESUMABLE,
    Rig,
    events,
    expected,
    hold_after,
    numbers,
    text,
    worker,
)
from splitpool_worker.api.service import Intervals

TOKENS = 8
LAST = TOKENS  # the number of [DONE]


@pytest.fixture
async def rig() -> Any:
    async with worker() as running:
        yield running


async def cut(rig: Rig, limit: int, **fields: Any) -> tuple[str, list[Event]]:
    """A stream whose client reads `limit` events and is gone: its id and what the client has."""
    async with rig.stream(headers=RESUMABLE, max_tokens=TOKENS, **fields) as response:
        had = await events(response, limit)
        return response.headers["X-Splitpool-Stream-Id"], had


@pytest.mark.parametrize("limit", range(LAST + 1))
async def test_a_stream_cut_at_any_event_goes_on_after_its_number(rig: Rig, limit: int) -> None:
    key, had = await cut(rig, limit)
    query: Any = {"starting_after": limit - 1} if limit else {}

    status, rest = await rig.resume(key, **query)

    assert status == 200
    assert numbers(had + rest) == list(range(LAST + 1))
    assert text(had + rest) == expected("story", TOKENS)
    assert rest[-1].data == "[DONE]"


@pytest.mark.parametrize("limit", range(1, LAST + 1))
async def test_last_event_id_means_the_same(rig: Rig, limit: int) -> None:
    key, had = await cut(rig, limit)

    _, rest = await rig.resume(key, {"Last-Event-ID": str(limit - 1)})

    assert numbers(had + rest) == list(range(LAST + 1))


async def test_of_number_and_last_event_id_the_larger_one_counts(rig: Rig) -> None:
    key, _ = await cut(rig, LAST + 1)

    for query, header in ((1, "3"), (3, "1")):
        _, rest = await rig.resume(key, {"Last-Event-ID": header}, starting_after=query)
        assert numbers(rest)[0] == 4


@pytest.mark.parametrize("received", range(TOKENS + 1))
async def test_a_stream_goes_on_after_any_count_of_tokens(rig: Rig, received: int) -> None:
    key, _ = await cut(rig, LAST + 1)

    status, rest = await rig.resume(key, received_tokens=received)

    assert status == 200
    assert text(rest) == expected("story", TOKENS)[received:]
    assert rest[-1].data == "[DONE]"


@pytest.mark.parametrize("received", range(TOKENS + 1))
async def test_a_count_inside_an_event_gets_the_rest_of_it(received: int) -> None:
    once = Intervals(gather=1000.0, sweep=0.01, closing=1.0)
    async with worker(classes=("batch",), intervals=once) as rig:
        key, had = await cut(rig, 4)
        assert len(had) == 3  # the first token, all the others, [DONE]

        _, rest = await rig.resume(key, received_tokens=received)

    assert text(rest) == expected("story", TOKENS)[received:]
    assert rest[-1].data == "[DONE]"


@pytest.mark.parametrize("limit", range(LAST + 1))
async def test_a_client_that_knows_only_its_own_request_id_goes_on_with_it(
    rig: Rig, limit: int
) -> None:
    mine = uuid4().hex
    async with rig.stream(
        headers=RESUMABLE | {"X-Request-Id": mine}, max_tokens=TOKENS
    ) as response:
        had = await events(response, limit)

    query: Any = {"starting_after": limit - 1} if limit else {}
    _, rest = await rig.resume(mine, **query)

    assert numbers(had + rest) == list(range(LAST + 1))
    assert text(had + rest) == expected("story", TOKENS)


async def test_resuming_runs_no_step_twice(rig: Rig) -> None:
    await rig.complete(max_tokens=TOKENS)
    whole = len(rig.runner.steps)
    key, had = await cut(rig, 2, prompt="other")
    while had[-1].data != "[DONE]":
        url = f"{rig.url}/v1/streams/{key}?starting_after={numbers(had)[-1]}"
        async with rig.http.get(url) as response:
            had += await events(response, 1)
            response.close()

    assert len(rig.runner.steps) == 2 * whole


async def test_who_has_the_last_event_gets_204(rig: Rig) -> None:
    key, _ = await cut(rig, LAST + 1)

    assert await rig.resume(key, starting_after=LAST) == (204, [])


@pytest.mark.parametrize(
    "query",
    [
        {"starting_after": LAST + 1},
        {"received_tokens": TOKENS + 1},
        {"starting_after": -1},
        {"starting_after": "\u0661"},
    ],
)
async def test_a_position_the_stream_never_had_is_refused(rig: Rig, query: Any) -> None:
    key, _ = await cut(rig, LAST + 1)

    status, _ = await rig.resume(key, **query)

    assert status == 400


async def test_other_callers_and_unknown_streams_get_404(rig: Rig) -> None:
    mine = {"X-Splitpool-Caller": "me", "X-Request-Id": "my-request"}
    async with rig.stream(headers=RESUMABLE | mine, max_tokens=2) as response:
        key = response.headers["X-Splitpool-Stream-Id"]
        await events(response)

    for name in (key, "my-request"):
        assert (await rig.resume(name, {"X-Splitpool-Caller": "other"}))[0] == 404
        assert (await rig.resume(name))[0] == 404
        assert await rig.delete(name, {"X-Splitpool-Caller": "other"}) == 404
        assert (await rig.resume(name, mine))[0] == 200
    assert (await rig.resume("unknown", mine))[0] == 404


async def test_a_stream_that_did_not_ask_cannot_be_resumed_and_is_aborted(rig: Rig) -> None:
    async with rig.stream(max_tokens=250) as response:
        key = response.headers["X-Splitpool-Stream-Id"]
        await events(response, 2)

    await rig.until(rig.idle)
    assert (await rig.resume(key))[0] == 404


async def test_every_stream_is_resumable_where_the_mode_says_so() -> None:
    async with worker("--resume-mode", "Always") as rig, rig.stream(max_tokens=4) as response:
        key = response.headers["X-Splitpool-Stream-Id"]
        await events(response)

        assert (await rig.resume(key))[0] == 200


async def test_no_stream_is_resumable_where_the_mode_says_so() -> None:
    async with worker("--resume-mode", "Off") as rig:
        key, _ = await cut(rig, LAST + 1)

        assert (await rig.resume(key))[0] == 404


async def test_events_that_fell_out_of_a_small_ring_are_gone() -> None:
    async with worker("--resume-buffer-bytes", "4096") as rig:
        async with rig.stream(headers=RESUMABLE, max_tokens=60) as response:
            key = response.headers["X-Splitpool-Stream-Id"]
            whole = await events(response)

        assert (await rig.resume(key, starting_after=3))[0] == 410
        assert (await rig.resume(key, received_tokens=3))[0] == 410
        status, rest = await rig.resume(key, starting_after=len(whole) - 3)

    assert status == 200
    assert rest == whole[-2:]


async def test_a_stream_expires_when_its_window_has_closed() -> None:
    async with worker("--resume-window-seconds", "0.05") as rig:
        key, _ = await cut(rig, LAST + 1)

        await rig.until(lambda: not list(rig.service.streams))

        assert (await rig.resume(key))[0] == 404


async def test_an_orphan_is_aborted_when_its_window_has_closed() -> None:
    async with worker("--resume-window-seconds", "0.05") as rig:
        opened = hold_after(rig.runner, 3)
        await cut(rig, 1)
        await rig.until(lambda: not list(rig.service.streams))
        opened.set()
        await rig.until(rig.idle)

        assert len(rig.runner.steps) == 4


async def test_delete_stops_a_stream_and_may_be_repeated(rig: Rig) -> None:
    async with rig.stream(headers=RESUMABLE, max_tokens=250) as response:
        key = response.headers["X-Splitpool-Stream-Id"]
        await events(response, 2)

        assert [await rig.delete(key) for _ in range(3)] == [204, 204, 204]
        rest = await events(response)

    assert json.loads(rest[-1].data)["error"]["code"] == "stream_deleted"
    assert "[DONE]" not in {event.data for event in rest}
    await rig.until(rig.idle)
    assert (await rig.resume(key))[0] == 404


async def test_delete_works_for_streams_that_cannot_be_resumed(rig: Rig) -> None:
    async with rig.stream(max_tokens=250) as response:
        key = response.headers["X-Splitpool-Stream-Id"]
        await events(response, 1)

        assert [await rig.delete(key) for _ in range(2)] == [204, 204]
        rest = await events(response)

    assert json.loads(rest[-1].data)["error"]["code"] == "stream_deleted"
    assert await rig.delete(key) == 204
    await rig.until(rig.idle)


async def test_a_second_reader_replaces_the_first(rig: Rig) -> None:
    async with rig.stream(headers=RESUMABLE, max_tokens=200) as first:
        key = first.headers["X-Splitpool-Stream-Id"]
        had = await events(first, 1)

        status, rest = await rig.resume(key, starting_after=0)

        left = await events(first)
    assert status == 200
    assert numbers(had + rest) == list(range(len(had + rest)))
    assert text(had + rest) == expected("story", 200)
    assert json.loads(left[-1].data)["error"]["code"] == "reader_replaced"
    assert "[DONE]" not in {event.data for event in left}


async def test_a_live_request_id_cannot_be_used_twice(rig: Rig) -> None:
    headers = RESUMABLE | {"X-Request-Id": "mine"}
    body = FIXED | {"prompt": "x", "stream": True}
    async with rig.stream(headers=headers, max_tokens=250):
        status, answer = await rig.post(body, headers=headers)
        other, _ = await asyncio.gather(
            rig.http.post(
                f"{rig.url}/v1/completions",
                json=body,
                headers=headers | {"X-Splitpool-Caller": "another"},
            ),
            asyncio.sleep(0),
        )
        other.close()

    assert status == 409
    assert answer["error"]["code"] == "duplicate_request_id"
    assert other.status == 200


async def test_several_answers_cannot_be_resumed(rig: Rig) -> None:
    status, answer = await rig.post(
        FIXED | {"prompt": "x", "n": 2, "stream": True}, headers=RESUMABLE
    )

    assert status == 400
    assert answer["error"]["param"] == "n"


async def test_a_stop_string_never_splits_a_token_of_a_resumable_stream(rig: Rig) -> None:
    whole = expected("story", 20)
    async with rig.stream(
        headers=RESUMABLE, max_tokens=20, stop=[whole[7:9] + "never"]
    ) as response:
        key = response.headers["X-Splitpool-Stream-Id"]
        await events(response)

    for received in range(21):
        _, rest = await rig.resume(key, received_tokens=received)
        assert text(rest) == whole[received:]
