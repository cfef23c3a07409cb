"""Which pool, class and worker a request reaches, and what the answer says of it."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from fakes.fake_worker import FakeWorker
from fakes.router_rig import Rig, chat, pool_object, rig, until, write_endpoints
from fakes.scripted_answers import Script
from splitpool_router.caller import ApiKey
from splitpool_router.placing.classify import LatencyClass


def both() -> tuple[FakeWorker, FakeWorker]:
    return FakeWorker(name="fast"), FakeWorker(name="bulk", classes=["batch"])


async def class_of(router: Rig, body: dict[str, Any], **headers: str) -> str:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    async with router.stream(body, headers=named) as response:
        assert response.status == 200, await response.text()
        await response.read()
        return response.headers["X-Splitpool-Class"]


async def test_the_first_wish_that_counts_decides(tmp_path: Path) -> None:
    pool = pool_object(pools={"batch": {"objective": "nightly"}}, routing={"defaultClass": "batch"})
    fast, bulk = both()
    async with rig(tmp_path, fast, bulk, pools=[pool]) as router:
        streamed, flex = chat(stream=True), chat(stream=True, service_tier="flex")
        objective = {"X_Gateway_Inference_Objective": "nightly"}
        assert await class_of(router, flex, X_Splitpool_Class="Interactive") == "interactive"
        assert await class_of(router, streamed, **objective) == "batch"
        assert await class_of(router, flex) == "batch"
        assert await class_of(router, chat(service_tier="priority")) == "interactive"
        assert await class_of(router, streamed) == "interactive"
        assert await class_of(router, chat()) == "batch"
        assert (fast.executions, bulk.executions) == (3, 3)
        told = {seen.headers["x-splitpool-class"] for seen in bulk.completions()}
        assert told == {"batch"}


async def test_an_unknown_class_is_400_with_the_allowed_list(tmp_path: Path) -> None:
    async with rig(tmp_path, FakeWorker()) as router:
        got, _, body = await router.post(chat(), headers={"X-Splitpool-Class": "urgent"})
        assert (got, body["error"]["param"]) == (400, "X-Splitpool-Class")
        assert "interactive, batch" in body["error"]["message"]


async def test_an_api_key_clamps_the_class_and_keeps_others_out(tmp_path: Path) -> None:
    fast, bulk = both()
    keys = (ApiKey(key="sk-fast"), ApiKey(key="sk-bulk", maxClass=LatencyClass.BATCH))
    async with rig(tmp_path, fast, bulk, api_keys=keys) as router:
        wish = {"X_Splitpool_Class": "interactive"}
        assert await class_of(router, chat(), Authorization="Bearer sk-bulk", **wish) == "batch"
        assert await class_of(router, chat(), Authorization="Bearer sk-fast") == "interactive"
        for path in ("/v1/models", "/v1/streams/x"):
            assert (await router.get(path))[0] == 401
        got, _, body = await router.post(chat(), headers={"Authorization": "Bearer sk-x"})
        assert (got, body["error"]["code"]) == (401, "invalid_api_key")
        assert "sk-x" not in json.dumps(body)


async def test_a_shared_worker_serves_both_classes_by_its_header(tmp_path: Path) -> None:
    shared = FakeWorker(name="shared", classes=["interactive", "batch"])
    async with rig(tmp_path, shared) as router:
        assert await class_of(router, chat(service_tier="flex")) == "batch"
        assert await class_of(router, chat()) == "interactive"
        told = [seen.headers["x-splitpool-class"] for seen in shared.completions()]
        assert told == ["batch", "interactive"]


async def test_batch_never_spills_and_interactive_only_where_the_pool_allows_it(
    tmp_path: Path,
) -> None:
    empty = {"interactive": {"replicas": 0}}
    for spill, expected in ((True, "batch"), (False, None)):
        bulk = FakeWorker(name="bulk", classes=["batch"])
        pool = pool_object(pools=empty, routing={"spillToBatch": spill})
        async with rig(tmp_path, bulk, pools=[pool]) as router:
            if expected is None:
                assert (await router.post(chat()))[0] == 503
            else:
                assert await class_of(router, chat()) == expected
    fast = FakeWorker(name="fast")
    pool = pool_object(pools={"batch": {"replicas": 0}}, routing={"spillToBatch": True})
    async with rig(tmp_path, fast, pools=[pool]) as router:
        assert (await router.post(chat(service_tier="flex")))[0] == 503
        assert fast.executions == 0


async def test_models_come_from_the_pools_sorted_and_once(tmp_path: Path) -> None:
    pools = [pool_object("b", "zeta"), pool_object("c", "alpha"), pool_object("a", "zeta")]
    async with rig(tmp_path, pools=pools) as router:
        _, _, body = await router.get("/v1/models")
        assert [model["id"] for model in json.loads(body)["data"]] == ["alpha", "zeta"]
        assert (await router.get("/v1/models/zeta"))[0] == 200
        got, _, body = await router.get("/v1/models/none")
        assert (got, json.loads(body)["error"]["code"]) == (404, "model_not_found")


async def test_an_unknown_model_is_404_and_a_missing_one_is_400(tmp_path: Path) -> None:
    async with rig(tmp_path, FakeWorker()) as router:
        got, _, body = await router.post(chat() | {"model": "gpt"})
        assert (got, body["error"]["code"], body["error"]["param"]) == (
            404,
            "model_not_found",
            "model",
        )
        got, _, body = await router.post({"messages": []})
        assert (got, body["error"]["param"]) == (400, "model")


async def test_of_two_pools_with_one_model_the_older_serves(tmp_path: Path) -> None:
    young, old = FakeWorker(name="y", pool="young"), FakeWorker(name="o", pool="old")
    pools = [pool_object("young"), pool_object("old")]
    pools[0]["metadata"]["creationTimestamp"] = "2026-02-01T00:00:00Z"
    pools[1]["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
    async with rig(tmp_path, young, old, pools=pools) as router:
        assert (await router.post(chat()))[0] == 200
        assert (young.executions, old.executions) == (0, 1)


async def test_tokenize_is_passed_to_a_worker_of_the_model(tmp_path: Path) -> None:
    worker = FakeWorker()
    async with rig(tmp_path, worker) as router:
        asked = {"model": "tiny", "prompt": "abc"}
        got, _, body = await router.post(asked, path="/tokenize")
        assert (got, body) == (200, {"count": 3})
        assert (await router.post({"prompt": "x"}, path="/tokenize"))[0] == 400


async def test_a_pool_and_its_workers_come_and_go_with_the_file(tmp_path: Path) -> None:
    worker, other = FakeWorker(), FakeWorker(name="w2", pool="second", model="other")
    async with rig(tmp_path, worker) as router:
        await other.start()
        second = pool_object("second", "other")
        write_endpoints(router.path, [pool_object(), second], [worker, other], generation=2)
        await until(lambda: router.fleet.generation == 2)
        assert (await router.post(chat() | {"model": "other"}))[0] == 200
        write_endpoints(router.path, [pool_object()], [worker], generation=3)
        await until(lambda: router.fleet.generation == 3)
        assert (await router.post(chat() | {"model": "other"}))[0] == 404
        router.path.write_text("{ broken")
        await asyncio.sleep(0.3)
        assert (await router.post(chat()))[0] == 200
        await other.stop()


async def test_the_state_of_pools_and_queues_can_be_read(tmp_path: Path) -> None:
    worker = FakeWorker(kv_tokens=1000)
    async with rig(tmp_path, worker) as router:
        worker.script = Script(hold_after_events=1)
        async with router.stream(chat(stream=True, max_tokens=50)):
            await worker.held.wait()
            _, _, body = await router.get("/internal/pools")
        state = json.loads(body)
        assert state["generation"] == 1
        interactive = state["pools"][0]["classes"]["interactive"]
        assert interactive["ready"] == 1
        assert interactive["limitTokens"] == 5000
        assert 50 < interactive["outstandingTokens"] < 70


@pytest.mark.parametrize("path", ["/health", "/ready"])
async def test_health_and_readiness_answer_without_any_worker(tmp_path: Path, path: str) -> None:
    async with rig(tmp_path) as router:
        assert (await router.get(path))[0] == 200
