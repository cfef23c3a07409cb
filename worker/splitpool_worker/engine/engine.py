"""The engine: one thread that schedules, runs and samples step after step, and a mailbox to it."""

import logging
import time
from collections.abc import Callable, Mapping
from collections.abc import Sequence as Many
from dataclasses import dataclass
from functools import partial
from threading import Lock, Thread
from typing import TextIO

from splitpool_worker.engine.assemble import assemble
from splitpool_worker.engine.batch import Runner
from splitpool_worker.engine.loadboard import LoadBoard
from splitpool_worker.engine.mailbox import Mailbox
from splitpool_worker.engine.report import Reporter, write_line
from splitpool_worker.sampling.sampler import draw
from splitpool_worker.schedule.blocks import BlockLeak
from splitpool_worker.schedule.limits import ClassLimits, WorkerLimits
from splitpool_worker.schedule.progress import ended
from splitpool_worker.schedule.scheduler import Scheduler
from splitpool_worker.schedule.sequence import (
    Drawn,
    FinishReason,
    LatencyClass,
    Request,
    TokenOutput,
)
from splitpool_worker.schedule.stats import ClassLoad, ClassStep, StepStats
from splitpool_worker.schedule.step import StepPlan

__all__ = [
    "BadRequest",
    "ClassLimits",
    "ClassLoad",
    "ClassStep",
    "Engine",
    "EngineStopped",
    "NeverFits",
    "StepStats",
    "WorkerLimits",
]

log = logging.getLogger(__name__)


class NeverFits(ValueError):
    """A prompt of `prompt_tokens` in a class that can hold at most `limit` prompt tokens."""

    def __init__(self, prompt_tokens: int, limit: int) -> None:
        super().__init__(f"the prompt has {prompt_tokens} tokens, at most {limit} can ever fit")
        self.prompt_tokens = prompt_tokens
        self.limit = limit


class BadRequest(ValueError):
    """A request that no scheduler could serve."""


class EngineStopped(RuntimeError):
    """Nothing can be submitted any more."""


@dataclass(slots=True)
class _Laps:
    """Seconds of the parts of one step, each from the end of the one before."""

    clock: Callable[[], float]
    last: float
    parts: dict[str, float]

    def lap(self, part: str) -> float:
        now = self.clock()
        self.parts[part] = self.parts.get(part, 0.0) + now - self.last
        self.last = now
        return now

    def split(self, part: str, spent: Mapping[str, float]) -> None:
        """Put what is known of a part in its place; what of it nobody timed is `other`."""
        if spent:
            whole = self.parts.pop(part)
            self.parts |= spent
            self.parts["other"] = max(0.0, whole - sum(spent.values()))


class Engine:
    """Every public method may be called from any thread and returns without waiting for a step.

    `on_outputs` and `on_step` are called on the engine's thread, once per step. What a step gave is
    delivered when the next one is about to be computed: whoever sends it then works beside a
    computation that does not need Python, not beside the planning that does.
    """

    def __init__(
        self,
        runner: Runner,
        limits: WorkerLimits,
        *,
        on_outputs: Callable[[Many[TokenOutput]], None],
        on_step: Callable[[StepStats], None] = lambda stats: None,
        clock: Callable[[], float] = time.monotonic,
        step_log: TextIO | None = None,
    ) -> None:
        self._runner = runner
        self._limits = limits
        self._on_outputs = on_outputs
        self._on_step = on_step
        self._clock = clock
        self._step_log = step_log
        self._scheduler = Scheduler(limits)
        self._reporter = Reporter(self._scheduler.lanes)
        self._mailbox = Mailbox()
        self._board = LoadBoard(self._scheduler.load())
        self._door = Lock()
        self._closed = False
        self._stopping = False
        self._added: list[str] = []
        self._outbox: list[TokenOutput] = []
        self._checked = True
        self._thread = Thread(target=self._run, name="engine", daemon=True)

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    def start(self) -> None:
        self._thread.start()

    def stop(self, timeout: float) -> None:
        """End the loop after the step in progress; what is still live finishes with ABORT."""
        self._stopping = True
        self._mailbox.post(lambda: None)
        if self._thread.ident is not None:
            self._thread.join(timeout)

    def submit(self, request: Request) -> None:
        """Queue a request. Raises NeverFits, BadRequest or EngineStopped."""
        self._check_request(request)
        with self._door:
            if self._closed:
                raise EngineStopped("the engine has stopped")
            self._board.submitted(request)
            self._mailbox.post(partial(self._add, request, self._clock()))

    def _check_request(self, request: Request) -> None:
        """Refuse what could break a step, and with it the requests that share it."""
        of_class = self._limits.of(request.cls)
        if of_class is None or not request.prompt or request.max_tokens < 1:
            raise BadRequest(f"request {request.id}: no such class, no prompt or nothing to do")
        limit = self._limits.longest(of_class) - 1
        if len(request.prompt) > limit:
            raise NeverFits(len(request.prompt), limit)
        tokens = (*request.prompt, *(token for token, _ in request.params.logit_bias))
        if min(tokens) < 0 or max(tokens) >= self._runner.vocab_size:
            raise BadRequest(f"request {request.id}: a token id outside the model's vocabulary")

    def abort(self, request_id: str) -> None:
        """Drop a request between two steps; no output follows, its blocks are free."""
        self._mailbox.post(partial(self._abort, request_id))

    def set_orphan(self, request_id: str, orphan: bool) -> None:
        """The client of a resumable stream left (True) or is back (False)."""
        self._mailbox.post(partial(self._scheduler.set_orphan, request_id, orphan))

    def set_yield(self, token_budget: int, ttl_s: float) -> None:
        """Cap the batch class's tokens per step for a while."""
        until = self._clock() + ttl_s
        self._mailbox.post(partial(self._scheduler.set_yield, token_budget, until))

    def load(self) -> Mapping[LatencyClass, ClassLoad]:
        """A snapshot that never waits for a step."""
        return self._board.read()

    def meaningless_blocks(self) -> list[int]:
        """Blocks whose content nobody may read; tests poison them. Only from within a step."""
        return [
            block for lane in self._scheduler.lanes.values() for block in lane.pool.meaningless()
        ]

    def _run(self) -> None:
        try:
            while not self._stopping:
                self._iterate()
        finally:
            with self._door:
                self._closed = True
            self._apply()
            self._deliver([ended(s, FinishReason.ABORT) for s in self._scheduler.live])

    def _iterate(self) -> None:
        """One step, or a rest where there is nothing to do. What breaks ends the requests that are
        live, not the loop."""
        try:
            self._apply()
            if self._stopping:
                return
            started = self._clock()
            plan = self._scheduler.plan(started)
            if plan.shares:
                self._step(plan, started)
            else:
                self._rest(plan)
        except Exception as error:
            log.exception("engine iteration failed; every live request ends")
            self._deliver(self._scheduler.fail(self._scheduler.live, _words(error)))

    def _apply(self) -> None:
        """Carry out what other threads asked for; one that fails concerns nobody else."""
        for command in self._mailbox.take():
            try:
                command()
            except Exception:
                log.exception("engine command failed")

    def _abort(self, request_id: str) -> None:
        self._scheduler.drop(request_id)
        self._outbox = [output for output in self._outbox if output.request_id != request_id]

    def _add(self, request: Request, submitted: float) -> None:
        self._added.append(request.id)
        self._scheduler.add(request, submitted)

    def _step(self, plan: StepPlan, started: float) -> None:
        self._checked = False
        if self._added:
            self._publish()
        laps = _Laps(self._clock, started, {})
        try:
            drawn = self._compute(plan, laps)
        except Exception as error:
            log.exception("step %d failed; its %d sequences end", plan.number, len(plan.shares))
            self._outbox += self._scheduler.fail([s.sequence for s in plan.shares], _words(error))
        else:
            self._scheduler.observe(plan, laps.last - started)
            self._apply()  # so that nothing is delivered of what was aborted meanwhile
            self._outbox += self._scheduler.commit(plan, drawn, laps.last)
        self._publish()
        ended_at = laps.lap("deliver")
        self._report(self._reporter.record(plan, started, ended_at, laps.parts))

    def _compute(self, plan: StepPlan, laps: _Laps) -> list[Drawn | None]:
        batch = assemble(plan, self._limits.block_size)
        laps.lap("schedule")
        self._deliver()
        laps.lap("deliver")
        logits = self._runner.forward(batch)
        laps.lap("forward")
        laps.split("forward", self._runner.spent())
        drawn = draw(logits, self._runner.best(), plan.sampled)
        laps.lap("sample")
        return drawn

    def _rest(self, plan: StepPlan) -> None:
        """Nothing to compute: check the books once, then wait for news or for the planned
        moment."""
        if plan.stuck is not None:
            log.error("no progress; failing %s; state %s", plan.stuck.id, self._scheduler.load())
            self._deliver(self._scheduler.fail([plan.stuck], "the engine makes no progress"))
            return
        self._deliver()
        self._publish()
        if self._scheduler.idle and not self._checked:
            self._checked = True
            self._check_books()
        self._mailbox.wait(_until(plan.wake_at, self._clock()))

    def _check_books(self) -> None:
        try:
            self._scheduler.check()
        except BlockLeak:
            log.exception("KV blocks do not add up")

    def _publish(self) -> None:
        self._board.publish(self._scheduler.load(), self._added)
        self._added.clear()

    def _deliver(self, more: Many[TokenOutput] = ()) -> None:
        """What waits in the outbox, then `more`."""
        outputs, self._outbox = [*self._outbox, *more], []
        if not outputs:
            return
        try:
            self._on_outputs(outputs)
        except Exception:
            log.exception("outputs of a step could not be delivered")

    def _report(self, stats: StepStats) -> None:
        try:
            self._on_step(stats)
            if self._step_log is not None:
                write_line(self._step_log, stats)
        except Exception:
            log.exception("step %d could not be reported", stats.step)


def _until(moment: float | None, now: float) -> float | None:
    return None if moment is None else max(0.0, moment - now)


def _words(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
