"""The engine: one thread that schedules, runs and samples step after step, and a mailbox to it."""

import time
from collections.abc import Callable, Mapping
from collections.abc import Sequence as Many
from typing import TextIO

from splitpool_worker.batch import Runner
from splitpool_worker.limits import ClassLimits, WorkerLimits
from splitpool_worker.sequence import LatencyClass, Request, TokenOutput
from splitpool_worker.stats import ClassLoad, ClassStep, StepStats

__all__ = [
    "ClassLimits",
    "ClassLoad",
    "ClassStep",
    "Engine",
    "NeverFits",
    "StepStats",
    "WorkerLimits",
]


class NeverFits(ValueError):
    """A prompt of `prompt_tokens` in a class that can hold at most `limit` prompt tokens."""

    def __init__(self, prompt_tokens: int, limit: int) -> None:
        super().__init__(f"the prompt has {prompt_tokens} tokens, at most {limit} can ever fit")
        self.prompt_tokens = prompt_tokens
        self.limit = limit


class Engine:
    def __init__(
        self,
        runner: Runner,
        limits: WorkerLimits,
        *,
        on_outputs: Callable[[Many[TokenOutput]], None],
        on_step: Callable[[StepStats], None] = lambda stats: None,
        clock: Callable[[], float] = time.monotonic,
        step_log: TextIO | None = None,
    ) -> None: ...

    @property
    def alive(self) -> bool: ...

    def start(self) -> None: ...

    def stop(self, timeout: float) -> None:
        """End the loop after the step in progress; what is still live finishes with ABORT."""

    def submit(self, request: Request) -> None:
        """Queue a request, or raise NeverFits."""

    def abort(self, request_id: str) -> None:
        """Drop a request between two steps; no output follows, its blocks are free."""

    def set_orphan(self, request_id: str, orphan: bool) -> None:
        """The client of a resumable stream left (True) or is back (False)."""

    def set_yield(self, token_budget: int, ttl_s: float) -> None:
        """Cap the batch class's tokens per step for a while."""

    def load(self) -> Mapping[LatencyClass, ClassLoad]:
        """A snapshot that never waits for a step."""
