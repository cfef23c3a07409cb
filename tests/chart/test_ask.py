"""What `helm test` finds out about a release, with the chart's own script and a real router."""

import asyncio
import json
import os
import sys
from pathlib import Path

import aiohttp
import pytest

from cluster.helm import CHART
from fakes.fake_worker import FakeWorker, started
from fakes.router_process import start
from fakes.router_rig import pool_object, write_endpoints
from fakes.scripted_answers import Script


async def asked(
    tmp_path: Path, workers: list[FakeWorker], *flags: str, **env: str
) -> tuple[int, str]:
    """Exit status and output of the script; flags of the router, variables of the script."""
    endpoints = tmp_path / "endpoints.json"
    write_endpoints(endpoints, [pool_object()], workers)
    router = await start("--port", "0", "--endpoints", str(endpoints), *flags)
    try:
        await router.listens()
        await until_seen(router.url, len(workers))
        script = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", (CHART / "files" / "ask.py").read_text(), router.url),
            stdout=asyncio.subprocess.PIPE,
            env={**os.environ, **env},
        )
        said, _ = await script.communicate()
        return script.returncode or 0, said.decode()
    finally:
        await router.kill()


async def until_seen(url: str, workers: int) -> None:
    """Returns when the router knows the pool and has found so many workers ready."""
    async with asyncio.timeout(30), aiohttp.ClientSession() as client:
        while True:
            async with client.get(f"{url}/internal/pools") as answer:
                pools = (await answer.json())["pools"]
            if pools and all(each["ready"] == workers for each in pools[0]["classes"].values()):
                return
            await asyncio.sleep(0.05)


async def test_every_class_with_a_worker_is_asked(tmp_path: Path) -> None:
    worker = FakeWorker(classes=("interactive", "batch"))
    async with started(worker):
        status, said = await asked(tmp_path, [worker])
    assert said.splitlines() == [
        "models: tiny",
        "default/assistant interactive: 1 answer",
        "default/assistant batch: 1 answer",
    ]
    assert status == 0
    assert worker.executions == 2


@pytest.mark.parametrize(("key", "status"), [("sk-probe", 0), ("sk-other", 1), ("", 1)])
async def test_a_router_with_api_keys_is_asked_with_the_one_for_it(
    tmp_path: Path, key: str, status: int
) -> None:
    keys = tmp_path / "keys.json"
    keys.write_text(json.dumps({"keys": [{"key": "sk-probe", "name": "probe"}]}))
    worker = FakeWorker(classes=("interactive", "batch"))
    async with started(worker):
        ended, said = await asked(
            tmp_path, [worker], "--api-keys", str(keys), SPLITPOOL_API_KEY=key
        )
    assert ended == status, said
    assert worker.executions == (0 if status else 2)


async def test_a_pool_without_workers_is_no_failure(tmp_path: Path) -> None:
    status, said = await asked(tmp_path, [])
    assert "default/assistant interactive: no worker is ready" in said
    assert status == 0


async def test_a_worker_that_breaks_is_one_and_is_told_in_the_routers_words(tmp_path: Path) -> None:
    worker = FakeWorker(classes=("interactive", "batch"))
    worker.script = Script(status=500)
    async with started(worker):
        status, said = await asked(tmp_path, [worker])
    assert status == 1
    assert "failed: HTTPError: HTTP Error 5" in said
    assert '"code"' in said
