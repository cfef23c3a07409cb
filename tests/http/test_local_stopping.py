"""How local mode ends: drained on the first signal, at once on the second."""

import json
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from fakes.local_rig import BATCH, INTERACTIVE, Up, alive, prepared


@pytest.fixture
async def up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Up]:
    async with prepared(tmp_path, monkeypatch) as rig:
        yield rig


async def test_the_router_drains_before_the_workers_are_told(up: Up) -> None:
    up.start()
    await up.ready()
    await up.stop()
    lines = (up.folder / "events").read_text().splitlines()
    events = [(event["what"], event["name"]) for event in map(json.loads, lines)]
    for worker in (INTERACTIVE, BATCH):
        assert events.index(("end", "router")) < events.index(("SIGTERM", worker))


async def test_a_router_that_drains_is_waited_for_and_workers_stay(up: Up) -> None:
    up.behave(router={"ignore_term": True})
    up.start()
    await up.ready()
    os.kill(os.getpid(), signal.SIGTERM)
    await up.until(lambda: up.told("SIGTERM", "router"))
    assert all(alive(up.pid(name)) for name in (INTERACTIVE, BATCH))
    assert not up.told("SIGTERM", BATCH)

    os.kill(up.pid("router"), signal.SIGINT)
    assert await up.ended() == 0
    assert up.told("SIGTERM", BATCH)


async def test_a_second_signal_stops_at_once(up: Up) -> None:
    up.behave(router={"ignore_term": True})
    up.start()
    await up.ready()
    os.kill(os.getpid(), signal.SIGINT)
    await up.until(lambda: up.told("SIGTERM", "router"))
    os.kill(os.getpid(), signal.SIGINT)
    assert await up.ended() == 0
    assert "stopping at once" in up.output.getvalue()
    assert not any(alive(event["pid"]) for event in up.told("start"))


async def test_a_router_that_outlasts_its_drain_is_killed(
    up: Up, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("splitpool_operator.local.running._ROUTER_GRACE", 0.1)
    up.behave(router={"ignore_term": True})
    no_time = {f"spec.pools.{name}.drainSeconds": 0 for name in ("interactive", "batch")}
    up.start(no_time)
    await up.ready()
    assert await up.stop() == 0
    assert not alive(up.pid("router"))
    assert not up.told("end", "router")


async def test_a_stop_while_workers_still_load_ends_everything(up: Up) -> None:
    up.behave(assistant_batch_0={"ready": False})
    up.start()
    await up.until(lambda: up.told("start", BATCH))
    assert await up.stop() == 0
    assert not any(alive(event["pid"]) for event in up.told("start"))
