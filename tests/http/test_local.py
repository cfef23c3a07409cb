"""Local mode with stand-ins for worker and router: real processes, real HTTP, real signals."""

import os
import signal
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from fakes.local_rig import ALL, BATCH, INTERACTIVE, QUICK, Up, alive, prepared


@pytest.fixture
async def up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Up]:
    async with prepared(tmp_path, monkeypatch) as rig:
        yield rig


async def test_everything_starts_is_listed_and_stops_without_a_trace(up: Up) -> None:
    up.start()
    await up.ready()

    listed = up.endpoints()["workers"]
    assert {entry["name"] for entry in listed} == {INTERACTIVE, BATCH}
    assert {event["name"] for event in up.told("start")} == ALL
    said = up.output.getvalue()
    assert f"{INTERACTIVE} | {INTERACTIVE} says hello" in said
    assert f"http://127.0.0.1:{up.options.port}" in said
    assert (up.folder / "logs" / f"{BATCH}.log").read_text() == f"{BATCH} says hello\n"

    pids = [up.pid(name) for name in ALL]
    assert await up.stop(signal.SIGINT) == 0
    assert not any(map(alive, pids))
    assert {event["name"] for event in up.told("end")} == ALL


async def test_each_process_gets_its_arguments_and_only_the_router_the_callers_key(up: Up) -> None:
    up.options = replace(up.options, worker_flags=["--static"], router_flags=["--access-log"])
    up.start()
    await up.ready()

    (router,), (worker,) = up.told("start", "router"), up.told("start", BATCH)
    assert router["rest"][:2] == ["--endpoints", str(up.folder / "state" / "endpoints.json")]
    assert router["rest"][-1] == "--access-log"
    assert set(router["secrets"]) == {"SPLITPOOL_INTERNAL_TOKEN", "SPLITPOOL_CALLER_KEY"}
    assert set(worker["secrets"]) == {"SPLITPOOL_INTERNAL_TOKEN"}
    token = worker["secrets"]["SPLITPOOL_INTERNAL_TOKEN"]
    assert len(token) == 64
    assert router["secrets"]["SPLITPOOL_INTERNAL_TOKEN"] == token
    steps = str(up.folder / "state" / "steps" / f"{BATCH}.jsonl")
    assert worker["rest"][:3] == ["--step-log", steps, "--static"]
    assert worker["rest"].index("--static") < worker["rest"].index("--class")
    assert token not in up.output.getvalue()


async def test_phases_are_shown_as_each_process_reaches_them(up: Up) -> None:
    up.behave(assistant_batch_0={"ready": False})
    up.start()
    await up.until(lambda: f"{BATCH} is warming" in up.output.getvalue())
    assert f"{BATCH} is ready" not in up.output.getvalue()
    assert "splitpool is ready" not in up.output.getvalue()
    up.behave()
    await up.ready()
    assert f"{BATCH} is ready" in up.output.getvalue()


async def test_a_killed_worker_is_started_again_under_another_uid(up: Up) -> None:
    up.start()
    await up.ready()
    before = {entry["name"]: entry for entry in up.endpoints()["workers"]}

    os.kill(up.pid(INTERACTIVE), signal.SIGKILL)
    await up.until(lambda: len(up.told("start", INTERACTIVE)) == 2)
    await up.until(lambda: up.output.getvalue().count(f"{INTERACTIVE} is ready") == 2)

    after = {entry["name"]: entry for entry in up.endpoints()["workers"]}
    assert after[INTERACTIVE]["uid"] != before[INTERACTIVE]["uid"]
    assert after[BATCH] == before[BATCH]
    assert "was ended by signal 9; starting again in" in up.output.getvalue()
    assert len(up.told("start", BATCH)) == 1


async def test_a_killed_router_comes_back_on_its_port(up: Up) -> None:
    up.start()
    await up.ready()
    os.kill(up.pid("router"), signal.SIGKILL)
    await up.until(lambda: len(up.told("start", "router")) == 2)
    first, second = up.told("start", "router")
    assert first["port"] == second["port"] == up.options.port
    assert first["secrets"] == second["secrets"]


async def test_a_worker_that_falls_silent_is_killed_and_started_again(up: Up) -> None:
    up.start()
    await up.ready()
    up.behave(assistant_batch_0={"silent": True})
    await up.until(lambda: "silent for" in up.output.getvalue())
    up.behave()
    await up.until(lambda: up.output.getvalue().count(f"{BATCH} is ready") == 2)


async def test_restarts_wait_longer_each_time_and_never_end(up: Up) -> None:
    up.start()
    await up.ready()
    up.behave(assistant_batch_0={"exit": 1})
    os.kill(up.pid(BATCH), signal.SIGKILL)
    await up.until(lambda: len(up.told("start", BATCH)) >= 6)
    said = up.output.getvalue()
    assert said.index("again in 0.0 s") < said.index("again in 0.1 s")
    up.behave()
    await up.until(lambda: up.output.getvalue().count(f"{BATCH} is ready") == 2)


@pytest.mark.parametrize("code", [2, 3, 4])
async def test_a_worker_that_says_why_it_cannot_start_ends_everything_with_its_code(
    up: Up, code: int
) -> None:
    error = {"code": "quota_too_small", "message": "12Mi hold no sequence"}
    up.behave(assistant_batch_0={"exit": code, "error": error})
    up.start()

    assert await up.ended() == code
    said = up.output.getvalue()
    assert f"splitpool: {BATCH} ended with code {code}: 12Mi hold no sequence" in said
    assert len(up.told("start", BATCH)) == 1
    assert not any(alive(event["pid"]) for event in up.told("start"))


async def test_a_worker_that_never_comes_up_is_given_up_after_a_few_attempts(up: Up) -> None:
    up.behave(assistant_batch_0={"exit": 1})
    up.start()
    assert await up.ended() == 1
    assert len(up.told("start", BATCH)) == QUICK.attempts_at_start
    assert f"{BATCH} ended with code 1 3 times without having been ready" in up.output.getvalue()


async def test_a_worker_that_cannot_start_again_is_left_out_and_the_rest_goes_on(up: Up) -> None:
    up.start()
    await up.ready()
    up.behave(assistant_batch_0={"exit": 4, "error": {"message": "the model is gone"}})
    os.kill(up.pid(BATCH), signal.SIGKILL)
    await up.until(lambda: "going on without" in up.output.getvalue())
    assert "the model is gone" in up.output.getvalue()
    assert [entry["name"] for entry in up.endpoints()["workers"]] == [INTERACTIVE]
    assert await up.stop() == 0


async def test_what_a_worker_has_started_ends_with_it(up: Up) -> None:
    up.behave(assistant_batch_0={"grandchild": True})
    up.start()
    await up.ready()
    (grandchild,) = up.told("grandchild")
    os.kill(up.pid(BATCH), signal.SIGKILL)
    await up.until(lambda: len(up.told("start", BATCH)) == 2)
    assert not alive(grandchild["child"])


async def test_a_disk_that_is_full_delays_what_the_router_learns_and_nothing_else(up: Up) -> None:
    up.start()
    await up.ready()
    fresh = up.folder / "state" / "endpoints.new"
    fresh.symlink_to("/dev/full")
    before = up.pid("assistant-batch-0")

    os.kill(before, signal.SIGKILL)
    await up.until(lambda: "endpoints.json cannot be written: No space" in up.output.getvalue())
    fresh.unlink()

    await up.until(lambda: up.endpoints()["generation"] > 3)
    await up.until(lambda: len(up.endpoints()["workers"]) == 2)
    assert up.output.getvalue().count("endpoints.json cannot be written") <= 2
