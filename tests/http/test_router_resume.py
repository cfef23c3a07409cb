"""Resuming through the router: the right worker, the worker's status, every token once."""

import json
from pathlib import Path

import pytest

from fakes.fake_worker import FakeWorker
from fakes.router_rig import Event, Rig, chat, events, pool_object, rig, until, write_endpoints
from fakes.scripted_answers import Script
from splitpool_router.placing.classify import LatencyClass

INTERACTIVE = LatencyClass.INTERACTIVE
RESUMABLE = {"X-Splitpool-Resumable": "true"}
MINE = {**RESUMABLE, "X-Request-Id": "mine-1"}


async def cut_after(router: Rig, worker: FakeWorker, count: int, **headers: str) -> str:
    """Starts a resumable stream, leaves after `count` events; its stream id."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    worker.script = Script(hold_after_events=count)
    async with router.stream(headers={**RESUMABLE, **named}) as response:
        for _ in range(count):
            await response.content.readuntil(b"\n\n")
        stream_id = response.headers["X-Splitpool-Stream-Id"]
    await until(lambda: not router.router.active)
    worker.release.set()
    return stream_id


async def rest(router: Rig, path: str, **headers: str) -> list[Event]:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    got, response, body = await router.get(path, headers=named)
    assert (got, response.content_type) == (200, "text/event-stream"), body
    return events(body)


@pytest.mark.parametrize("count", range(1, 6))
async def test_a_stream_cut_anywhere_and_resumed_shows_every_token_once(
    tmp_path: Path, count: int
) -> None:
    worker, other = FakeWorker(name="w0"), FakeWorker(name="w1", kv_tokens=1)
    async with rig(tmp_path, worker, other) as router:
        other.ready = False
        await until(lambda: sum(w.serving for w in router.fleet.workers.values()) == 1)
        stream_id = await cut_after(router, worker, count)
        got = await rest(router, f"/v1/streams/{stream_id}?starting_after={count - 1}")
        assert [event.id for event in got] == list(range(count, 7))
        assert got[-1].data == "[DONE]"
        assert worker.executions == 1
        assert await router.total("stream_resumes_total", result="resumed") == 1


async def test_last_event_id_and_the_query_are_passed_on(tmp_path: Path) -> None:
    worker = FakeWorker()
    async with rig(tmp_path, worker) as router:
        stream_id = await cut_after(router, worker, 2)
        got = await rest(router, f"/v1/streams/{stream_id}", Last_Event_ID="3")
        assert [event.id for event in got] == [4, 5, 6]
        await router.get(f"/v1/streams/{stream_id}?received_tokens=2&starting_after=1")
        assert worker.seen[-1].path.endswith("?received_tokens=2&starting_after=1")
        assert worker.seen[-1].headers["x-splitpool-caller"] == "anonymous"


async def test_a_stream_is_found_by_the_clients_own_request_id_at_any_worker(
    tmp_path: Path,
) -> None:
    workers = (FakeWorker(name="w0"), FakeWorker(name="w1"), FakeWorker(name="w2"))
    async with rig(tmp_path, *workers) as router:
        for worker in workers:
            worker.script = Script(hold_after_events=2)
        async with router.stream(headers=MINE) as response:
            await response.content.readuntil(b"\n\n")
        for worker in workers:
            worker.release.set()
        got = await rest(router, "/v1/streams/mine-1?starting_after=1")
        assert [event.id for event in got] == [2, 3, 4, 5, 6]
        assert sum(worker.executions for worker in workers) == 1


async def test_a_router_that_knows_nothing_of_the_request_asks_every_worker(
    tmp_path: Path,
) -> None:
    workers = (FakeWorker(name="w0"), FakeWorker(name="w1"), FakeWorker(name="w2"))
    for worker in workers:
        worker.script = Script(hold_after_events=2)
    async with rig(tmp_path, *workers) as router:
        async with router.stream(headers=MINE) as response:
            await response.content.readuntil(b"\n\n")
        for worker in workers:
            worker.release.set()
        await until(lambda: not router.router.active)
        router.router._parts.live.forget(("anonymous", "mine-1"))
        assert len(await rest(router, "/v1/streams/mine-1?starting_after=1")) == 5


@pytest.mark.parametrize(("query", "status"), [("starting_after=6", 204), ("gone=1", 410)])
async def test_the_workers_word_is_passed_on(tmp_path: Path, query: str, status: int) -> None:
    worker = FakeWorker()
    async with rig(tmp_path, worker) as router:
        stream_id = await cut_after(router, worker, 2)
        await rest(router, f"/v1/streams/{stream_id}")
        got, _, body = await router.get(f"/v1/streams/{stream_id}?{query}")
        assert got == status
        assert bool(body) == (status == 410)


async def test_unknown_ids_and_other_callers_get_404(tmp_path: Path) -> None:
    worker = FakeWorker()
    async with rig(tmp_path, worker) as router:
        stream_id = await cut_after(router, worker, 2, Authorization="Bearer a")
        for path in (f"/v1/streams/{stream_id}", f"/v1/streams/{worker.stream_key}-{'0' * 32}"):
            got, _, body = await router.get(path, headers={"Authorization": "Bearer b"})
            assert (got, json.loads(body)["error"]["code"]) == (404, "stream_not_found")
        assert (await router.get("/v1/streams/never-seen"))[0] == 404
        assert await rest(router, f"/v1/streams/{stream_id}", Authorization="Bearer a")


async def test_a_stream_whose_worker_is_gone_is_404_worker_lost(tmp_path: Path) -> None:
    worker, other = FakeWorker(name="w0"), FakeWorker(name="w1")
    async with rig(tmp_path, worker) as router:
        stream_id = await cut_after(router, worker, 2, X_Request_Id="mine-1")
        await worker.stop()
        await other.start()
        for name in (stream_id, "mine-1"):
            got, _, body = await router.get(f"/v1/streams/{name}")
            assert (got, json.loads(body)["error"]["code"]) == (404, "worker_lost")
        write_endpoints(router.path, [pool_object()], [other], generation=2)
        await until(lambda: router.fleet.generation == 2)
        got, _, body = await router.get(f"/v1/streams/{stream_id}")
        assert (got, json.loads(body)["error"]["code"]) == (404, "worker_lost")
        assert await router.total("stream_resumes_total", result="worker_lost") == 3
        await other.stop()


async def test_delete_stops_generation_and_frees_the_request_id(tmp_path: Path) -> None:
    worker = FakeWorker()
    async with rig(tmp_path, worker) as router:
        worker.script = Script(hold_after_events=2)
        async with router.stream(headers=MINE) as response:
            await response.content.readuntil(b"\n\n")
        await until(lambda: not router.router.active)
        assert (await router.get("/v1/streams/mine-1", method="DELETE"))[0] == 204
        await worker.freed.wait()
        worker.script = Script()
        async with router.stream(headers=MINE) as response:
            assert response.status == 200


async def test_a_second_live_request_of_one_id_is_409_whatever_worker_it_would_reach(
    tmp_path: Path,
) -> None:
    workers = (FakeWorker(name="w0"), FakeWorker(name="w1"))
    async with rig(tmp_path, *workers) as router:
        for worker in workers:
            worker.script = Script(hold_after_events=2)
        async with router.stream(headers=MINE) as response:
            await response.content.readuntil(b"\n\n")
            got, answer, body = await router.post(chat("other", stream=True), headers=MINE)
            assert (got, body["error"]["code"]) == (409, "duplicate_request_id")
            assert answer.headers["x-should-retry"] == "false"
        await until(lambda: not router.router.active)
        got, _, _ = await router.post(chat("other", stream=True), headers=MINE)
        assert got == 409
        other = {**MINE, "Authorization": "Bearer b"}
        async with router.stream(headers=other) as response:
            assert response.status == 200
        assert sum(worker.executions for worker in workers) == 2


async def test_a_worker_that_restarted_in_its_pod_has_lost_the_request(tmp_path: Path) -> None:
    worker = FakeWorker()
    worker.script = Script(hold_after_events=2)
    async with rig(tmp_path, worker) as router:
        async with router.stream(headers=MINE) as response:
            await response.content.readuntil(b"\n\n")
        await until(lambda: not router.router.active)
        await worker.restart()
        (known,) = router.fleet.workers.values()
        await until(
            lambda: known.report is not None and known.report.stream_key == worker.stream_key
        )
        worker.script = Script()
        async with router.stream(headers=MINE) as response:
            assert response.status == 200


async def test_an_orphan_keeps_nobody_waiting_and_counts_again_once_it_is_read(
    tmp_path: Path,
) -> None:
    worker = FakeWorker()
    worker.script = Script(hold_after_events=2)
    async with rig(tmp_path, worker) as router:
        (known,) = router.fleet.workers.values()
        async with router.stream(headers=MINE) as response:
            await response.content.readuntil(b"\n\n")
            held = known.held(INTERACTIVE)
            assert held > 0
        await until(lambda: known.held(INTERACTIVE) == 0)
        path = router.url + "/v1/streams/mine-1?starting_after=0"
        async with router.client.get(path) as rest:
            await rest.content.readuntil(b"\n\n")
            assert known.held(INTERACTIVE) == held
            worker.release.set()
            await rest.read()
        await until(lambda: known.held(INTERACTIVE) == 0)


async def test_a_finished_request_frees_its_id(tmp_path: Path) -> None:
    worker = FakeWorker()
    async with rig(tmp_path, worker) as router:
        for _ in range(2):
            async with router.stream(headers=MINE) as response:
                assert response.status == 200
                await response.read()
        assert worker.executions == 2


@pytest.mark.parametrize(
    ("mode", "asked", "expected"),
    [
        ("OnRequest", False, False),
        ("OnRequest", True, True),
        ("Always", False, True),
        ("Off", True, False),
    ],
)
async def test_the_pools_mode_decides_what_is_resumable(
    tmp_path: Path, mode: str, asked: bool, expected: bool
) -> None:
    worker = FakeWorker()
    async with rig(tmp_path, worker, pools=[pool_object(resume={"mode": mode})]) as router:
        async with router.stream(headers=RESUMABLE if asked else {}) as response:
            await response.read()
        assert ("x-splitpool-resumable" in worker.completions()[0].headers) == expected


async def test_several_answers_at_once_are_not_resumable(tmp_path: Path) -> None:
    worker = FakeWorker()
    async with rig(tmp_path, worker, pools=[pool_object(resume={"mode": "Always"})]) as router:
        got, _, body = await router.post(chat(stream=True, n=2), headers=RESUMABLE)
        assert (got, body["error"]["param"]) == (400, "n")
        async with router.stream(chat(stream=True, n=2)) as response:
            await response.read()
        assert "x-splitpool-resumable" not in worker.completions()[0].headers
