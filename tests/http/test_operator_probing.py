"""The operator asks workers and routers as they answer, and takes silence for no answer."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from splitpool_operator.cluster import health, probing
from splitpool_operator.cluster.probing import HttpProbe
from splitpool_operator.cluster.routers import Routers
from splitpool_operator.declaration.pool import CLASSES
from splitpool_operator.reporting.enforcement import Vram, WorkerReport
from splitpool_operator.reporting.observed import PodState
from unit.pool_files import CPU, pool

VRAM = {"quota": 9, "context": 0, "weights": 2, "workspace": 1, "kv": 6, "used": 3}
POOL = pool(CPU, {"metadata": {"name": "assistant", "generation": 3, "uid": "u"}})


@dataclass
class Answers:
    """What the cluster says, and what it was asked."""

    generation: int = 3
    status: int = 200
    asked: list[str] = field(default_factory=list)
    # Of requests for tokens; None wants no key.
    key: str | None = None

    async def ready(self, request: web.Request) -> web.Response:
        self.asked.append("ready")
        fence = {"limit": 9, "seen": "a file"}
        body = {"enforcement": "Cgroup", "fence": fence, "vram": {"batch": VRAM}, "ready": True}
        return web.json_response(body if self.status == 200 else {}, status=self.status)

    async def pools(self, request: web.Request) -> web.Response:
        self.asked.append("pools")
        shown = {"namespace": "default", "name": "assistant", "generation": self.generation}
        return web.json_response({"generation": 1, "pools": [shown]})

    async def complete(self, request: web.Request) -> web.Response:
        self.asked.append(request.headers["X-Splitpool-Class"])
        if self.key is not None and request.headers.get("Authorization") != f"Bearer {self.key}":
            return web.json_response({}, status=401)
        assert (await request.json())["max_tokens"] == 1
        return web.json_response({"choices": [{"text": "a"}]}, status=self.status)


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


@pytest.fixture
def answers() -> Answers:
    return Answers()


@pytest.fixture
async def server(
    answers: Answers, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[tuple[str, int]]:
    app = web.Application()
    app.router.add_get("/ready", answers.ready)
    app.router.add_get("/internal/pools", answers.pools)
    app.router.add_post("/v1/completions", answers.complete)
    async with TestServer(app) as served:
        assert served.port is not None
        monkeypatch.setattr(probing, "PORT", served.port)
        yield "127.0.0.1", served.port


def worker(uid: str, ip: str = "127.0.0.1") -> PodState:
    return PodState(
        name=uid, uid=uid, ip=ip, ready=True, terminating=False, current=True, trouble=None
    )


async def test_a_worker_reports_its_fence_and_its_quota(
    http: aiohttp.ClientSession, server: tuple[str, int], answers: Answers
) -> None:
    now = 0.0
    probe = HttpProbe(http, None, clock=lambda: now)
    report = WorkerReport(
        enforcement="Cgroup", seen="a file", vram={"batch": Vram(quota=9, weights=2, kv=6, used=3)}
    )
    assert await probe.workers([worker("a")]) == {"a": report}
    assert await probe.workers([worker("a")]) == {"a": report}
    assert answers.asked == ["ready"]
    now = 241.0
    await probe.workers([worker("a")])
    assert answers.asked == ["ready", "ready"]


async def test_a_worker_that_falls_silent_is_asked_again_soon_and_its_last_words_hold(
    http: aiohttp.ClientSession, server: tuple[str, int], answers: Answers
) -> None:
    now = 0.0
    probe = HttpProbe(http, None, clock=lambda: now)
    answers.status = 500
    assert await probe.workers([worker("a")]) == {}
    answers.status, now = 200, 5.0
    said = await probe.workers([worker("a")])
    assert said["a"].enforcement == "Cgroup"
    answers.status, now = 500, 250.0
    assert await probe.workers([worker("a")]) == said
    now = 255.0
    await probe.workers([worker("a")])
    assert answers.asked == ["ready"] * 4


async def test_a_silent_worker_is_missing(
    http: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch, unused_tcp_port: int
) -> None:
    monkeypatch.setattr(probing, "PORT", unused_tcp_port)
    assert await HttpProbe(http, None).workers([worker("a")]) == {}


async def test_a_pool_serves_when_every_router_knows_it_and_each_class_answers(
    http: aiohttp.ClientSession, server: tuple[str, int], answers: Answers
) -> None:
    probe = HttpProbe(http, Routers(http, server))
    assert await probe.serving(POOL, [worker("a")], CLASSES) is None
    assert answers.asked == ["pools", "interactive", "batch"]
    assert await probe.serving(POOL, [worker("a")], CLASSES) is None
    assert len(answers.asked) == 3
    await probe.serving(POOL, [worker("b")], CLASSES)
    assert len(answers.asked) == 6


async def test_a_router_that_is_behind_and_a_token_that_fails_are_told(
    http: aiohttp.ClientSession, server: tuple[str, int], answers: Answers
) -> None:
    probe = HttpProbe(http, Routers(http, server))
    answers.generation = 2
    behind = await probe.serving(POOL, [worker("a")], CLASSES)
    assert behind is not None
    assert behind.reason == "RouterBehind"
    answers.generation, answers.status = 3, 503
    failed = await probe.serving(POOL, [worker("a")], CLASSES)
    assert failed is not None
    assert failed.reason == "ProbeFailed"
    answers.status = 200
    assert await probe.serving(POOL, [worker("a")], CLASSES) is None


async def test_a_class_at_zero_is_not_asked_since_that_would_wake_it(
    http: aiohttp.ClientSession, server: tuple[str, int], answers: Answers
) -> None:
    probe = HttpProbe(http, Routers(http, server))
    assert await probe.serving(POOL, [worker("a")], ["interactive"]) is None
    assert answers.asked == ["pools", "interactive"]


async def test_routers_with_api_keys_get_the_one_that_stands_in_the_file_now(
    http: aiohttp.ClientSession, server: tuple[str, int], answers: Answers, tmp_path: Path
) -> None:
    answers.key = "sk-new"
    file = tmp_path / "probe"
    probe = HttpProbe(http, Routers(http, server, file))
    # Not there yet, then another router's.
    for text in (None, "sk-old\n"):
        if text:
            file.write_text(text)
        failed = await probe.serving(POOL, [worker("a")], CLASSES)
        assert failed is not None
        assert failed.reason == "ProbeFailed"

    file.write_text("sk-new\n")

    assert await probe.serving(POOL, [worker("a")], CLASSES) is None


async def test_without_a_router_workers_are_enough(http: aiohttp.ClientSession) -> None:
    assert await HttpProbe(http, None).serving(POOL, [worker("a")], CLASSES) is None


async def test_liveness_says_what_is_wrong(
    http: aiohttp.ClientSession, unused_tcp_port: int
) -> None:
    troubles: list[Any] = [None, "a pool has been due for 400 s"]
    runner = await health.serve(lambda: troubles.pop(0), lambda: b"series 1\n", unused_tcp_port)
    try:
        root = f"http://127.0.0.1:{unused_tcp_port}"
        url = f"{root}/healthz"
        async with http.get(url) as answer:
            assert (answer.status, await answer.text()) == (200, "ok\n")
        async with http.get(url) as answer:
            assert (answer.status, await answer.text()) == (503, "a pool has been due for 400 s\n")
        async with http.get(f"{root}/metrics") as answer:
            assert await answer.text() == "series 1\n"
    finally:
        await runner.cleanup()
