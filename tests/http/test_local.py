"""Local mode with stand-ins for worker and router: real processes, real HTTP, real signals."""

import asyncio
import contextlib
import io
import json
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from splitpool_operator.local import ports
from splitpool_operator.local import up as local
from splitpool_operator.local.backoff import Backoff
from splitpool_operator.local.console import Console
from splitpool_operator.local.options import Options, Programs
from splitpool_operator.local.refusals import Refused
from splitpool_operator.local.running import Running
from splitpool_operator.local.supervise import Timing
from splitpool_operator.planning.plan import plan
from unit.pool_files import CPU, pool

FAKES = Path(__file__).parents[1] / "fakes"
FAKE = (sys.executable, str(FAKES / "fake_process.py"))
PROGRAMS = Programs(
    worker=FAKE, router=FAKE, inspect=(sys.executable, str(FAKES / "fake_inspect.py"))
)
QUICK = Timing(
    starting_poll=0.02,
    steady_poll=0.05,
    answer_within=0.5,
    hung_after=1.0,
    attempts_at_start=3,
    backoff=Backoff(first=0.01, longest=0.05, forgiven_after=600),
)
PATIENCE = 30.0
INTERACTIVE, BATCH = "assistant-interactive-0", "assistant-batch-0"
ALL = {INTERACTIVE, BATCH, "router"}
SMALL = {"spec.pools.interactive.hostMemory": "1Mi", "spec.pools.batch.hostMemory": "1Mi"}


@dataclass
class Up:
    """`splitpool up` within this process, and what its children have told."""

    folder: Path
    options: Options
    output: io.StringIO = field(default_factory=io.StringIO)
    task: "asyncio.Task[int] | None" = None

    def told(self, what: str, name: str | None = None) -> list[dict[str, Any]]:
        """Events of one kind, oldest first."""
        text = (self.folder / "events").read_text()
        events = [json.loads(line) for line in text.splitlines()]
        return [e for e in events if e["what"] == what and name in (None, e["name"])]

    def pid(self, name: str) -> int:
        """Process id of the latest start."""
        return int(self.told("start", name)[-1]["pid"])

    def endpoints(self) -> dict[str, Any]:
        """What the router would read."""
        return dict(json.loads((self.folder / "state" / "endpoints.json").read_text()))

    def behave(self, **names: dict[str, Any]) -> None:
        """Change what processes do from now on, by rename."""
        fresh = self.folder / "script.new"
        fresh.write_text(json.dumps({name.replace("_", "-"): do for name, do in names.items()}))
        fresh.replace(self.folder / "script")

    def start(self, changes: dict[str, Any] | None = None) -> None:
        """Serve the declaration in the background."""
        made = [plan(pool(CPU, SMALL | (changes or {})), cores=2)]
        state, logs = self.folder / "state", self.folder / "logs"
        state.mkdir(exist_ok=True)
        logs.mkdir(exist_ok=True)
        console = Console(self.output, live=False, coloured=False)

        async def run() -> int:
            try:
                return await Running(made, self.options, console, state, logs).run()
            finally:
                console.close()

        self.task = asyncio.create_task(run())

    async def until(self, fact: Callable[[], object]) -> None:
        """Wait until a fact holds; fails with the output where it never does."""
        async with asyncio.timeout(PATIENCE):
            while not fact():
                assert self.task is not None
                if self.task.done() and not fact():
                    raise AssertionError(
                        f"ended with {self.task.result()}:\n{self.output.getvalue()}"
                    )
                await asyncio.sleep(0.01)

    async def ready(self) -> None:
        await self.until(lambda: "splitpool is ready" in self.output.getvalue())

    async def stop(self, number: int = signal.SIGTERM) -> int:
        """Signal ourselves, as Ctrl-C would; the exit status."""
        os.kill(os.getpid(), number)
        return await self.ended()

    async def ended(self) -> int:
        assert self.task is not None
        async with asyncio.timeout(PATIENCE):
            return await self.task


@pytest.fixture
async def up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Up]:
    monkeypatch.setenv("FAKE_EVENTS", str(tmp_path / "events"))
    monkeypatch.setenv("FAKE_SCRIPT", str(tmp_path / "script"))
    (tmp_path / "events").touch()
    options = Options(
        port=ports.free(), state_dir=tmp_path / "state", programs=PROGRAMS, timing=QUICK
    )
    rig = Up(folder=tmp_path, options=options)
    rig.behave()
    yield rig
    if rig.task is not None and not rig.task.done():
        for _ in range(2):
            os.kill(os.getpid(), signal.SIGTERM)
        await rig.ended()


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


def alive(pid: int) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess):
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    return False


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


async def test_the_router_drains_before_the_workers_are_told(up: Up) -> None:
    up.start()
    await up.ready()
    await up.stop()
    events = [(e["what"], e["name"]) for e in map(json.loads, open_lines(up.folder / "events"))]
    for worker in (INTERACTIVE, BATCH):
        assert events.index(("end", "router")) < events.index(("SIGTERM", worker))


def open_lines(path: Path) -> list[str]:
    return path.read_text().splitlines()


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


async def test_what_a_worker_has_started_ends_with_it(up: Up) -> None:
    up.behave(assistant_batch_0={"grandchild": True})
    up.start()
    await up.ready()
    (grandchild,) = up.told("grandchild")
    os.kill(up.pid(BATCH), signal.SIGKILL)
    await up.until(lambda: len(up.told("start", BATCH)) == 2)
    assert not alive(grandchild["child"])


async def test_a_stop_while_workers_still_load_ends_everything(up: Up) -> None:
    up.behave(assistant_batch_0={"ready": False})
    up.start()
    await up.until(lambda: up.told("start", BATCH))
    assert await up.stop() == 0
    assert not any(alive(event["pid"]) for event in up.told("start"))


def refusal(options: Options, changes: dict[str, Any] | None = None) -> Refused:
    made = [plan(pool(CPU, SMALL | (changes or {})), cores=2)]
    with pytest.raises(Refused) as refused:
        local.check(made, options)
    return refused.value


async def test_a_taken_port_is_refused_before_anything_starts(up: Up) -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = holder.getsockname()[1]
        refused = refusal(replace(up.options, port=port))
    assert refused.code == 5
    assert str(port) in str(refused)
    assert up.told("start") == []


async def test_a_missing_model_is_refused_before_anything_starts(up: Up) -> None:
    up.behave(inspect={"exit": 4, "error": {"message": "no such file"}})
    refused = refusal(up.options)
    assert refused.code == 4
    assert "file:///models/smollm2.gguf: no such file" in str(refused)


async def test_a_quota_that_is_too_small_is_refused_before_anything_starts(up: Up) -> None:
    refused = refusal(up.options, {"spec.pools.interactive.vram": "300Mi"})
    assert refused.code == 3
    assert "spec.pools.interactive.vram: 300Mi is too small" in str(refused)


async def test_more_memory_than_is_free_is_refused_before_anything_starts(up: Up) -> None:
    huge = {"spec.accelerator.memory": "900Ti", "spec.pools.batch.vram": "800Ti"}
    refused = refusal(up.options, huge)
    assert refused.code == 3
    assert "800Ti" in str(refused)


async def test_a_folder_that_cannot_be_written_is_refused(up: Up, tmp_path: Path) -> None:
    occupied = tmp_path / "file"
    occupied.touch()
    for options in (
        replace(up.options, log_dir=occupied / "logs"),
        replace(up.options, state_dir=occupied),
    ):
        refused = refusal(options)
        assert refused.code == 6
        assert str(occupied) in str(refused)


async def test_a_pool_without_workers_is_refused(up: Up) -> None:
    none = {f"spec.pools.{name}.replicas": 0 for name in ("interactive", "batch")}
    assert "nothing to run" in str(refusal(up.options, none))


async def test_two_pools_of_one_name_are_refused_though_a_cluster_would_take_them(up: Up) -> None:
    other = {"metadata.namespace": "other", "spec.model.name": "other"}
    made = [plan(pool(CPU, changes), cores=2) for changes in ({}, other)]
    with pytest.raises(Refused, match="rename one of them"):
        local.check(made, up.options)


async def test_a_model_that_is_elsewhere_is_refused(up: Up) -> None:
    refused = refusal(up.options, {"spec.model.source": "pvc://models/x"})
    assert refused.code == 4
