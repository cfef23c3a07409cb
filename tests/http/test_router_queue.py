"""Waiting and being turned away, seen from outside; who yields while somebody waits."""

import asyncio
from pathlib import Path
from typing import Any

from fakes.fake_worker import FakeWorker
from fakes.router_rig import Rig, chat, pool_object, rig, until
from fakes.scripted_answers import Script


def batch(text: str, max_tokens: int) -> dict[str, Any]:
    return chat(text, max_tokens=max_tokens, service_tier="flex")


async def fill(router: Rig, worker: FakeWorker, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    """Sends requests until one is refused; tokens held then, and the refusal."""
    worker.script = Script(hold_after_events=0)
    queue = next(q for q in router.fleet.queues.values() if q.rules.cls == "batch")
    tasks: list[asyncio.Task[Any]] = []
    while not any(task.done() for task in tasks):
        tasks.append(asyncio.create_task(router.post(body)))
        await until(lambda: any(t.done() for t in tasks) or router.router.active == len(tasks))
    held = queue.outstanding_tokens + queue.waiting_tokens
    status, response, answer = await next(task for task in tasks if task.done())
    worker.release.set()
    assert status == 429
    assert 1 <= int(response.headers["Retry-After"]) <= 30
    await asyncio.gather(*tasks)
    return held, answer["error"]


async def test_a_class_refuses_at_the_same_sum_for_20_long_and_200_short_requests(
    tmp_path: Path,
) -> None:
    sums = {}
    pool = pool_object(pools={"batch": {"queueTimeoutSeconds": 600}})
    for name, body in {"long": batch("x" * 1600, 600), "short": batch("x" * 160, 60)}.items():
        worker = FakeWorker(name="bulk", classes=["batch"], kv_tokens=4000)
        async with rig(tmp_path, worker, pools=[pool]) as router:
            sums[name], error = await fill(router, worker, body)
            assert error["code"] == "queue_full"
            assert await router.total("requests_total", code="429", reason="queue_full") == 1
    limit = 5 * 4000
    assert limit - 1010 <= sums["long"] <= limit
    assert limit - 110 <= sums["short"] <= limit


async def test_a_request_that_waits_too_long_is_429_queue_timeout(tmp_path: Path) -> None:
    worker = FakeWorker(kv_tokens=100)
    limits = {"interactive": {"queueTimeoutSeconds": 0.1, "maxQueueTokens": 10_000}}
    async with rig(tmp_path, worker, pools=[pool_object(pools=limits)]) as router:
        worker.script = Script(hold_after_events=1)
        async with router.stream():
            await worker.held.wait()
            got, response, body = await router.post(chat(stream=True))
            assert (got, body["error"]["code"]) == (429, "queue_timeout")
            assert 1 <= int(response.headers["Retry-After"]) <= 30
        assert worker.executions == 1
        assert await router.total("ttft_target_total", within="false") == 1


async def test_a_permit_is_held_to_the_last_byte_of_a_stream(tmp_path: Path) -> None:
    worker = FakeWorker(kv_tokens=100)
    limits = {"interactive": {"maxQueueTokens": 10_000}}
    async with rig(tmp_path, worker, pools=[pool_object(pools=limits)]) as router:
        worker.script = Script(hold_after_events=5)
        async with router.stream() as first:
            await worker.held.wait()
            second = asyncio.create_task(router.post(chat()))
            queue = next(iter(router.fleet.queues.values()))
            await until(lambda: queue.waiting_requests == 1)
            assert await router.total("queue_requests") == 1
            assert await router.total("queue_tokens") == queue.waiting_tokens
            assert await router.total("running_requests") == 1
            assert await router.total("running_tokens") == queue.outstanding_tokens > 0
            worker.script = Script()
            worker.release.set()
            assert (await first.read()).endswith(b"data: [DONE]\n\n")
            assert (await second)[0] == 200
        assert queue.waiting_tokens == queue.outstanding_tokens == 0
        assert await router.total("running_requests") == 0


async def test_while_interactive_waits_batch_workers_of_the_same_device_yield(
    tmp_path: Path,
) -> None:
    fast = FakeWorker(name="fast", device="gpu-0")
    near = FakeWorker(name="near", classes=["batch"], device="gpu-0", token_budget=512)
    far = FakeWorker(name="far", classes=["batch"], device="gpu-1", token_budget=512)
    async with rig(tmp_path, fast, near, far) as router:
        fast.script = Script(hold_after_events=1)
        async with router.stream() as response:
            await until(lambda: len(near.yields) >= 3)
            assert near.yields[0] == {"tokenBudget": 32, "ttlMs": 500}
            fast.release.set()
            await response.read()
            seen = len(near.yields)
            await asyncio.sleep(0.5)
            assert len(near.yields) <= seen + 1
        assert far.yields == []


async def test_batch_requests_make_nobody_yield(tmp_path: Path) -> None:
    bulk = FakeWorker(name="bulk", classes=["batch"])
    async with rig(tmp_path, FakeWorker(), bulk) as router:
        for number in range(3):
            assert (await router.post(batch(f"{number}", 5)))[0] == 200
        assert bulk.yields == []


async def test_a_shared_worker_is_never_asked_to_yield(tmp_path: Path) -> None:
    shared = FakeWorker(name="shared", classes=["interactive", "batch"])
    async with rig(tmp_path, shared) as router:
        shared.script = Script(hold_after_events=1)
        async with router.stream() as response:
            await shared.held.wait()
            await asyncio.sleep(0.3)
            shared.release.set()
            await response.read()
        assert shared.yields == []


async def test_estimates_follow_the_usage_that_workers_report(tmp_path: Path) -> None:
    worker = FakeWorker()
    async with rig(tmp_path, worker) as router:
        worker.script = Script(usage=(500, 40))
        estimator = router.fleet.estimator("tiny")
        before = estimator.bytes_per_token
        for stream in (False, True):
            async with router.stream(chat("x" * 984, stream=stream)) as response:
                await response.read()
        assert estimator.bytes_per_token < before
        assert estimator.answer_tokens < 256
