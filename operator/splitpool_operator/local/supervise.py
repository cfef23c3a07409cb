"""How is one process kept running: started, watched, killed when it hangs, started again?"""

import asyncio
import signal
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

import aiohttp

from splitpool_operator.local.backoff import Backoff
from splitpool_operator.local.child import Child, LineSink
from splitpool_operator.local.inspect_model import last_error
from splitpool_operator.local.progress import Phase, Progress

# A worker or router that ends so has said why, and would say it again.
HOPELESS_CODES = frozenset({2, 3, 4})


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Seconds between looks, and how long a process may be silent before it counts as hung."""

    starting_poll: float = 0.1
    steady_poll: float = 1.0
    answer_within: float = 5.0
    hung_after: float = 30.0
    attempts_at_start: int = 3
    backoff: Backoff = field(default_factory=Backoff)


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One start of a process: what to execute and where it will answer."""

    command: Sequence[str]
    env: dict[str, str]
    url: str


class GivenUp(Exception):
    """A process is not started again; `code` is its exit status."""

    def __init__(self, *, name: str, code: int, message: str) -> None:
        self.name = name
        self.code = code
        super().__init__(f"{name} {message}")


class Supervised:
    """One process of the pool over all its runs."""

    def __init__(
        self,
        *,
        name: str,
        prepare: Callable[[], Run],
        started: Callable[[Run], None],
        ended: Callable[[], None],
        sink: LineSink,
        progress: Progress,
        session: aiohttp.ClientSession,
        timing: Timing,
    ) -> None:
        self.name = name
        self._prepare, self._started, self._ended = prepare, started, ended
        self._sink, self._progress, self._session = sink, progress, session
        self._timing = timing
        self._stopping = asyncio.Event()
        self._ready_at: float | None = None
        self._was_ready = False
        self.child: Child | None = None

    async def run(self) -> None:
        """Keep the process running until `stop`. Raises GivenUp."""
        failures = 0
        while not self._stopping.is_set():
            self._ready_at = None
            code, lines = await self._one_run()
            if self._stopping.is_set():
                return
            ready_for = 0.0 if self._ready_at is None else time.monotonic() - self._ready_at
            failures = self._timing.backoff.failures(failures, ready_for)
            self._give_up(code, lines, failures)
            delay = self._timing.backoff.delay(failures)
            self._progress.move(self.name, Phase.RESTARTING)
            self._sink(f"(splitpool) {ending(code)}; starting again in {delay:.1f} s")
            await self._pause(delay)

    def stay_down(self) -> None:
        """Let the present run go on, but start no other."""
        self._stopping.set()

    async def stop(self, steps: Sequence[tuple[signal.Signals, float]]) -> None:
        """Send each signal and wait so long for the end; what is left then is killed."""
        self._stopping.set()
        child = self.child
        if child is None:
            return
        ended = asyncio.ensure_future(child.wait())
        for number, patience in steps:
            child.send(number)
            done, _ = await asyncio.wait([ended], timeout=patience)
            if done:
                return
        child.kill()
        await ended

    async def _one_run(self) -> tuple[int, list[str]]:
        run = self._prepare()
        self._progress.move(self.name, Phase.LOADING)
        try:
            child = await Child.start(run.command, run.env, self._sink)
        except OSError as error:
            return 127, [f"cannot run {run.command[0]}: {error.strerror}"]
        self.child = child
        self._started(run)
        watching = asyncio.create_task(self._watch(child, run.url))
        try:
            if self._stopping.is_set():
                child.kill()
            return await child.wait(), list(child.last_lines)
        finally:
            watching.cancel()
            child.kill()
            self.child = None
            self._ended()

    async def _watch(self, child: Child, url: str) -> None:
        """Follow the phases of a run; a run that has answered and falls silent is killed."""
        heard: float | None = None
        while not self._stopping.is_set():
            phase = await self._ask(url)
            now = time.monotonic()
            if phase is not None:
                heard = now
                self._enter(phase, now)
            elif heard is not None and now - heard > self._timing.hung_after:
                self._sink(f"(splitpool) silent for {now - heard:.0f} s: killed")
                child.kill()
                return
            ready = self._ready_at is not None
            await self._pause(self._timing.steady_poll if ready else self._timing.starting_poll)

    def _enter(self, phase: Phase, now: float) -> None:
        if phase is Phase.READY and self._ready_at is None:
            self._ready_at = now
            self._was_ready = True
        if self._ready_at is None or phase is Phase.READY:
            self._progress.move(self.name, phase)

    async def _ask(self, url: str) -> Phase | None:
        """What `/ready` says; None where nothing answers in time."""
        timeout = aiohttp.ClientTimeout(total=self._timing.answer_within)
        try:
            async with self._session.get(f"{url}/ready", timeout=timeout) as response:
                return Phase.READY if response.status == 200 else Phase.WARMING
        except (aiohttp.ClientError, TimeoutError, OSError):
            return None

    def _give_up(self, code: int, lines: list[str], failures: int) -> None:
        said = last_error(lines) or next((line for line in reversed(lines) if line.strip()), "")
        tail = f": {said}" if said else ""
        if code in HOPELESS_CODES:
            self._progress.move(self.name, Phase.FAILED)
            raise GivenUp(name=self.name, code=code, message=f"{ending(code)}{tail}")
        if not self._was_ready and failures >= self._timing.attempts_at_start:
            self._progress.move(self.name, Phase.FAILED)
            message = f"{ending(code)} {failures} times without having been ready{tail}"
            raise GivenUp(name=self.name, code=1, message=message)

    async def _pause(self, seconds: float) -> None:
        await until(self._stopping.wait(), seconds)


async def until(event: Awaitable[object], seconds: float) -> bool:
    """Wait for an event, but no longer; whether it came."""
    try:
        async with asyncio.timeout(seconds):
            await event
    except TimeoutError:
        return False
    return True


def ending(code: int) -> str:
    """An exit status in words."""
    return f"was ended by signal {-code}" if code < 0 else f"ended with code {code}"
