"""An engine on the fake model, and what comes out of it."""

import io
import json
import random
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import Condition
from typing import Any

from fakes.fake_runner import FakeRunner
from scheduling import class_limits, worker_limits
from splitpool_worker.engine.batch import Runner
from splitpool_worker.engine.engine import Engine, StepStats, WorkerLimits
from splitpool_worker.schedule.sequence import FinishReason, Request, TokenOutput

TIMEOUT = 60


class Rig:
    """Collects outputs; `wait` returns once requests are finished."""

    def __init__(self, limits: WorkerLimits, runner: Runner | None = None) -> None:
        self.runner: Any = runner or FakeRunner(
            block_size=limits.block_size,
            num_blocks=sum(of.kv_blocks for of in limits.classes),
            max_model_len=limits.max_model_len,
        )
        self.outputs: dict[str, list[TokenOutput]] = defaultdict(list)
        self.stats: list[StepStats] = []
        self.log = io.StringIO()
        self.after_step: Callable[[], None] = lambda: None
        """Called on the engine's thread, before what the step gave is delivered."""
        self._news = Condition()
        self.engine = Engine(
            self.runner,
            limits,
            on_outputs=self._receive,
            on_step=self._report,
            step_log=self.log,
        )

    def submit(self, *requests: Request) -> None:
        for request in requests:
            self.engine.submit(request)

    def wait(self, *names: str) -> None:
        self.until(lambda: all(self.finish(name) is not None for name in names))

    def until(self, fact: Any) -> None:
        """Return once `fact()` holds, looked at whenever outputs arrive."""
        with self._news:
            assert self._news.wait_for(fact, TIMEOUT), "nothing came out of the engine"

    def tokens(self, name: str) -> list[int]:
        """The tokens of a request; their indices have no gap and no repetition."""
        outputs = [output for output in self.outputs[name] if output.token_id is not None]
        assert [output.index for output in outputs] == list(range(len(outputs)))
        return [output.token_id for output in outputs if output.token_id is not None]

    def finish(self, name: str) -> FinishReason | None:
        return next((o.finish for o in self.outputs[name] if o.finish is not None), None)

    def error(self, name: str) -> str | None:
        return next((o.error for o in self.outputs[name] if o.error is not None), None)

    def log_lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.log.getvalue().splitlines()]

    def poison_free_blocks(self) -> None:
        """From now on whoever reads a block that was not computed for it gets no finite logits."""
        self.runner.before_step = lambda batch: self.runner.poison(self.engine.meaningless_blocks())

    def _report(self, stats: StepStats) -> None:
        self.stats.append(stats)
        self.after_step()

    def _receive(self, outputs: Sequence[TokenOutput]) -> None:
        with self._news:
            for output in outputs:
                self.outputs[output.request_id].append(output)
            self._news.notify_all()


@contextmanager
def running(limits: WorkerLimits | None = None, runner: FakeRunner | None = None) -> Iterator[Rig]:
    rig = Rig(limits or worker_limits(class_limits(kv_blocks=64), max_model_len=200), runner)
    rig.engine.start()
    try:
        yield rig
    finally:
        if rig.runner.gate is not None:
            rig.runner.gate.set()
        rig.engine.stop(TIMEOUT)
        assert not rig.engine.alive


def prompts(seed: int, count: int, longest: int = 40) -> list[list[int]]:
    """Random prompts, some of which begin alike."""
    rng = random.Random(seed)
    common = [rng.randrange(97) for _ in range(longest)]
    return [
        common[: rng.randrange(longest // 2)]
        + [rng.randrange(97) for _ in range(rng.randrange(1, longest // 2))]
        for _ in range(count)
    ]
