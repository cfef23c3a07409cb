"""`splitpool up` within the test's process, with stand-ins for worker and router behind it."""

import asyncio
import contextlib
import io
import json
import os
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest

from fakes.up_with_fakes import PROGRAMS
from splitpool_operator.local import ports
from splitpool_operator.local.backoff import Backoff
from splitpool_operator.local.console import Console
from splitpool_operator.local.options import Options
from splitpool_operator.local.running import Running
from splitpool_operator.local.supervise import Timing
from splitpool_operator.planning.plan import plan
from unit.pool_files import CPU, pool

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


@asynccontextmanager
async def prepared(folder: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Up]:
    """Ready to start in an empty folder; ended with the block."""
    monkeypatch.setenv("FAKE_EVENTS", str(folder / "events"))
    monkeypatch.setenv("FAKE_SCRIPT", str(folder / "script"))
    (folder / "events").touch()
    options = Options(
        port=ports.free(), state_dir=folder / "state", programs=PROGRAMS, timing=QUICK
    )
    rig = Up(folder=folder, options=options)
    rig.behave()
    yield rig
    if rig.task is not None and not rig.task.done():
        for _ in range(2):
            os.kill(os.getpid(), signal.SIGTERM)
        await rig.ended()


def alive(pid: int) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess):
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    return False
