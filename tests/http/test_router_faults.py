"""Faults between router and worker: each has one right answer, and a prompt runs at most once."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from fakes.fake_worker import FakeWorker
from fakes.router_rig import Rig, chat, events, pool_object, rig, until
from fakes.scripted_answers import Script
from splitpool_router.config import Limits
from splitpool_router.placing.classify import LatencyClass

SHORT = {
    cls: Limits(connect=2, stream_head=0.2, whole_head=0.2, idle=0.2)
    for cls in (LatencyClass.INTERACTIVE, LatencyClass.BATCH)
}


def two_workers() -> tuple[FakeWorker, FakeWorker]:
    return FakeWorker(name="w0"), FakeWorker(name="w1")


def script_all(workers: tuple[FakeWorker, ...], **fields: Any) -> None:
    for worker in workers:
        worker.script = Script(**fields)


def executions(*workers: FakeWorker) -> int:
    return sum(worker.executions for worker in workers)


def attempts(*workers: FakeWorker) -> int:
    return sum(len(worker.completions()) for worker in workers)


@pytest.mark.parametrize("status", [503, 429])
async def test_a_busy_worker_is_left_for_one_other_and_no_third(
    tmp_path: Path, status: int
) -> None:
    workers = (FakeWorker(name="w0"), FakeWorker(name="w1"), FakeWorker(name="w2"))
    async with rig(tmp_path, *workers) as router:
        script_all(workers, status=status, status_headers={"Retry-After": "7"})
        got, response, body = await router.post(chat())
        assert (got, response.headers["Retry-After"]) == (status, "7")
        assert body["error"]["code"] == "scripted"
        assert (attempts(*workers), executions(*workers)) == (2, 0)


async def test_the_other_worker_answers_where_the_first_is_busy(tmp_path: Path) -> None:
    workers = two_workers()
    async with rig(tmp_path, *workers) as router:
        workers[0].script = Script(status=503)
        for number in range(8):
            got, _, _ = await router.post(chat(f"{number}"))
            assert got == 200
        assert workers[1].executions == 8


@pytest.mark.parametrize("status", [500, 502, 400, 422])
async def test_any_other_status_is_passed_on_and_never_tried_again(
    tmp_path: Path, status: int
) -> None:
    workers = two_workers()
    async with rig(tmp_path, *workers) as router:
        script_all(workers, status=status)
        got, _, body = await router.post(chat())
        assert got == status
        assert body["error"]["message"] == f"the fake answers {status}"
        assert attempts(*workers) == 1


async def test_a_worker_that_resets_after_reading_is_502_and_runs_the_prompt_once(
    tmp_path: Path,
) -> None:
    workers = two_workers()
    async with rig(tmp_path, *workers) as router:
        script_all(workers, reset_after_reading=True)
        got, _, body = await router.post(chat(stream=True))
        assert (got, body["error"]["code"]) == (502, "worker_unreachable")
        assert executions(*workers) == 1


async def test_a_refused_connection_goes_to_the_other_worker(tmp_path: Path) -> None:
    workers = two_workers()
    async with rig(tmp_path, *workers) as router:
        await workers[0].stop()
        for number in range(6):
            got, _, _ = await router.post(chat(f"{number}"))
            assert got == 200
        assert workers[1].executions == 6


async def test_a_request_outlives_the_restart_of_its_only_worker(tmp_path: Path) -> None:
    worker = FakeWorker()
    async with rig(tmp_path, worker) as router:
        await worker.stop()
        waiting = asyncio.create_task(router.post(chat()))
        queue = router.fleet.queues[next(iter(router.fleet.queues))]
        await until(lambda: queue.waiting_requests == 1)
        await worker.start(int(worker.url.rpartition(":")[2]))
        got, _, _ = await waiting
        assert got == 200
        assert worker.executions == 1


async def test_no_worker_within_the_queue_timeout_is_503(tmp_path: Path) -> None:
    pool = pool_object(pools={"interactive": {"queueTimeoutSeconds": 0.05}})
    async with rig(tmp_path, pools=[pool]) as router:
        got, response, body = await router.post(chat())
        assert (got, body["error"]["code"]) == (503, "no_ready_worker")
        assert 1 <= int(response.headers["Retry-After"]) <= 30


async def test_a_class_of_zero_replicas_is_503_at_once_and_not_worth_a_repeat(
    tmp_path: Path,
) -> None:
    pool = pool_object(pools={"interactive": {"replicas": 0, "queueTimeoutSeconds": 600}})
    async with rig(tmp_path, pools=[pool]) as router:
        got, response, body = await router.post(chat())
        assert (got, body["error"]["code"]) == (503, "no_ready_worker")
        assert response.headers["x-should-retry"] == "false"


async def test_a_worker_that_never_answers_is_504_and_its_connection_is_closed(
    tmp_path: Path,
) -> None:
    workers = two_workers()
    async with rig(tmp_path, *workers, limits=SHORT) as router:
        script_all(workers, never_answer=True)
        got, _, body = await router.post(chat(stream=True))
        assert (got, body["error"]["code"]) == (504, "worker_timeout")
        assert executions(*workers) == 1


async def streamed(router: Rig) -> list[Any]:
    async with router.stream() as response:
        assert response.status == 200
        return events(await response.read())


async def test_a_worker_that_dies_mid_stream_ends_it_with_an_error_event(tmp_path: Path) -> None:
    workers = two_workers()
    async with rig(tmp_path, *workers) as router:
        script_all(workers, die_after_events=3)
        got = await streamed(router)
        assert [event.content for event in got[:-1]] == ["", "one", " two"]
        error = json.loads(got[-1].data)["error"]
        assert (error["code"], error["type"]) == ("worker_lost", "server_error")
        assert all(event.data != "[DONE]" for event in got)
        assert executions(*workers) == 1


async def test_a_torn_event_is_not_passed_on_before_the_error_event(tmp_path: Path) -> None:
    worker = FakeWorker()
    async with rig(tmp_path, worker) as router:
        worker.script = Script(die_after_events=2, torn_event=True)
        got = await streamed(router)
        assert [event.content for event in got[:-1]] == ["", "one"]
        assert "worker_lost" in got[-1].data


async def test_a_stream_that_ends_without_done_is_never_taken_for_complete(tmp_path: Path) -> None:
    worker = FakeWorker()
    async with rig(tmp_path, worker) as router:
        worker.script = Script(end_without_done=True)
        assert "worker_lost" in (await streamed(router))[-1].data


async def test_a_worker_that_dies_before_the_first_token_gives_an_error_event_too(
    tmp_path: Path,
) -> None:
    worker = FakeWorker()
    async with rig(tmp_path, worker) as router:
        worker.script = Script(die_after_events=1)
        got = await streamed(router)
        assert len(got) == 2
        assert "worker_lost" in got[-1].data
        assert await router.total("ttft_target_total", within="false") == 1


async def test_a_worker_that_falls_silent_mid_stream_ends_it_with_a_timeout_event(
    tmp_path: Path,
) -> None:
    worker = FakeWorker()
    async with rig(tmp_path, worker, limits=SHORT, sweep_period=0.05) as router:
        worker.script = Script(hold_after_events=2)
        got = await streamed(router)
        assert json.loads(got[-1].data)["error"]["code"] == "worker_timeout"
        await worker.freed.wait()


async def test_a_disconnect_frees_the_worker_mid_stream(tmp_path: Path) -> None:
    worker = FakeWorker()
    async with rig(tmp_path, worker) as router:
        worker.script = Script(hold_after_events=2)
        async with router.stream() as response:
            await response.content.readuntil(b"\n\n")
        async with asyncio.timeout(10):
            await worker.freed.wait()
        await until(lambda: not router.router.active)
        assert await router.total("requests_total", code="499", reason="client_left") == 1
        assert await router.total("active_streams") == 0


async def test_a_disconnect_frees_the_worker_before_the_first_byte(tmp_path: Path) -> None:
    worker = FakeWorker()
    async with rig(tmp_path, worker) as router:
        worker.script = Script(hold_after_events=0)
        waiting = asyncio.create_task(router.post(chat()))
        await worker.held.wait()
        waiting.cancel()
        async with asyncio.timeout(10):
            await worker.freed.wait()
        await until(lambda: not router.router.active)
        assert all(not w.outstanding["interactive"] for w in router.fleet.workers.values())  # type: ignore[index]


async def test_a_client_that_leaves_the_queue_is_never_sent_to_a_worker(tmp_path: Path) -> None:
    worker = FakeWorker(kv_tokens=1)
    pool = pool_object(pools={"interactive": {"maxQueueTokens": 10_000}})
    async with rig(tmp_path, worker, pools=[pool]) as router:
        worker.script = Script(hold_after_events=1)
        async with router.stream():
            await worker.held.wait()
            waiting = asyncio.create_task(router.post(chat()))
            queue = router.fleet.queues[next(iter(router.fleet.queues))]
            await until(lambda: queue.waiting_requests == 1)
            waiting.cancel()
            await until(lambda: queue.waiting_requests == 0)
            worker.release.set()
        assert attempts(worker) == 1


async def test_client_errors_never_keep_a_worker_from_serving(tmp_path: Path) -> None:
    workers = two_workers()
    async with rig(tmp_path, *workers) as router:
        for status in (400, 429, 503):
            script_all(workers, status=status)
            for number in range(12):
                assert (await router.post(chat(f"{number}")))[0] == status
        script_all(workers)
        for number in range(12):
            assert (await router.post(chat(f"{number}")))[0] == 200
        assert all(worker.executions for worker in workers)


async def test_a_worker_that_keeps_failing_is_passed_over(tmp_path: Path) -> None:
    workers = two_workers()
    async with rig(tmp_path, *workers) as router:
        workers[0].script = Script(status=500)
        for number in range(40):
            await router.post(chat(f"{number}"))
        before = attempts(workers[0])
        assert before >= 5
        for number in range(40, 60):
            assert (await router.post(chat(f"{number}")))[0] == 200
        assert attempts(workers[0]) == before


async def test_a_wrong_token_is_our_fault_and_not_the_clients(tmp_path: Path) -> None:
    worker = FakeWorker(token="right")
    async with rig(tmp_path, worker, internal_token="wrong") as router:
        got, _, body = await router.post(chat())
        assert (got, body["error"]["code"]) == (502, "worker_unreachable")
    async with rig(tmp_path, worker, internal_token="right") as router:
        assert (await router.post(chat()))[0] == 200


async def test_a_terminating_worker_gets_nothing_new_and_finishes_its_stream(
    tmp_path: Path,
) -> None:
    workers = two_workers()
    async with rig(tmp_path, *workers) as router:
        script_all(workers, hold_after_events=2)
        async with router.stream() as response:
            await response.content.readuntil(b"\n\n")
            busy, idle = workers if workers[0].executions else workers[::-1]
            busy.draining = True
            known = router.fleet.workers
            await until(lambda: [w.name for w in known.values() if w.serving] == [idle.name])
            script_all(workers)
            for number in range(6):
                assert (await router.post(chat(f"{number}")))[0] == 200
            assert (busy.executions, idle.executions) == (1, 6)
            busy.release.set()
            assert (await response.read()).endswith(b"data: [DONE]\n\n")


async def test_a_large_answer_arrives_whole_and_a_broken_one_is_not_taken_for_whole(
    tmp_path: Path,
) -> None:
    worker = FakeWorker()
    async with rig(tmp_path, worker) as router:
        worker.script = Script(padding=10 * 2**20)
        got, response, body = await router.post(chat())
        assert got == 200
        assert len(body["choices"][0]["message"]["content"]) > 10 * 2**20
        assert "Content-Length" in response.headers
        assert "Transfer-Encoding" not in response.headers


async def test_another_worker_at_a_known_address_gets_nothing(tmp_path: Path) -> None:
    """An address is used again before the news of it arrives."""
    worker = FakeWorker()
    async with rig(tmp_path, worker) as router:
        assert (await router.post(chat()))[0] == 200
        for field in ("name", "pool", "namespace"):
            own = getattr(worker, field)
            setattr(worker, field, "other")
            (known,) = router.fleet.workers.values()
            await until(lambda known=known: not known.serving)  # type: ignore[misc]
            setattr(worker, field, own)
            await until(lambda known=known: known.serving)  # type: ignore[misc]
        assert worker.executions == 1
