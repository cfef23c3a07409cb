"""Requests, limits and a clock with which a scheduler is driven step by step, without any model."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import inf
from zlib import crc32

from splitpool_worker.schedule.limits import ClassLimits, WorkerLimits
from splitpool_worker.schedule.scheduler import Scheduler
from splitpool_worker.schedule.sequence import (
    Drawn,
    FinishReason,
    LatencyClass,
    Request,
    SamplingParams,
    TokenOutput,
)
from splitpool_worker.schedule.step import Share, StepPlan

INTERACTIVE, BATCH = LatencyClass.INTERACTIVE, LatencyClass.BATCH


def request(
    name: str,
    *,
    prompt: int | Sequence[int] = 1,
    out: int = 4,
    cls: LatencyClass = INTERACTIVE,
    stream: bool = False,
    salt: bytes = b"",
    params: SamplingParams | None = None,
    stops: Sequence[int] = (),
) -> Request:
    """A request; a prompt given as a number has that many tokens, in an order of its own."""
    if isinstance(prompt, int):
        prompt = [crc32(f"{name} {i}".encode()) % 97 for i in range(prompt)]
    return Request(
        id=name,
        cls=cls,
        prompt=tuple(prompt),
        max_tokens=out,
        params=params or SamplingParams(seed=1, temperature=0.0),
        stop_token_ids=frozenset(stops),
        salt=salt,
        stream=stream,
        arrival=0.0,
    )


def class_limits(
    cls: LatencyClass = INTERACTIVE,
    *,
    kv_blocks: int = 1000,
    max_batch: int = 4,
    max_wait_s: float = 0.0,
    token_budget: int = 64,
    prefill_chunk: int = 32,
    max_length_ratio: float = 4.0,
    prefix_cache: bool = True,
) -> ClassLimits:
    return ClassLimits(
        cls=cls,
        vram_bytes=0,
        kv_blocks=kv_blocks,
        max_batch=max_batch,
        max_wait_s=max_wait_s,
        token_budget=token_budget,
        prefill_chunk=prefill_chunk,
        max_length_ratio=max_length_ratio,
        prefix_cache=prefix_cache,
    )


def worker_limits(
    *classes: ClassLimits,
    block_size: int = 4,
    max_model_len: int = 1000,
    max_step_s: float = inf,
    static: bool = False,
    class_priority: bool = True,
    draft_tokens: int = 0,
) -> WorkerLimits:
    return WorkerLimits(
        classes=classes or (class_limits(),),
        block_size=block_size,
        max_model_len=max_model_len,
        max_step_s=max_step_s,
        static=static,
        class_priority=class_priority,
        draft_tokens=draft_tokens,
    )


@dataclass
class Drive:
    """A scheduler with a clock of its own: every step takes one unit of time."""

    limits: WorkerLimits
    now: float = 0.0
    seconds: Callable[[StepPlan], float] = lambda plan: 1.0
    model: Callable[[list[int]], int] = lambda tokens: 7
    """The token that comes after these."""
    inspect: Callable[["Drive", StepPlan], None] = lambda drive, plan: None
    plans: list[StepPlan] = field(default_factory=list)
    outputs: list[TokenOutput] = field(default_factory=list)
    finished: dict[str, float] = field(default_factory=dict)
    scheduler: Scheduler = field(init=False)

    def __post_init__(self) -> None:
        self.scheduler = Scheduler(self.limits)

    def add(self, *requests: Request) -> None:
        for one in requests:
            self.scheduler.add(one, self.now)

    def step(self) -> dict[str, int]:
        """Plan, run and commit; the tokens that each request computed."""
        plan = self.scheduler.plan(self.now)
        self.plans.append(plan)
        self.inspect(self, plan)
        shares = {share.sequence.id: share.count for share in plan.shares}
        seconds = self.seconds(plan)
        self.now += seconds
        if plan.shares:
            self.scheduler.observe(plan, seconds)
        sampled = [self._drawn(share, row) for share in plan.shares for row in range(share.sampled)]
        outputs = self.scheduler.commit(plan, sampled, self.now)
        self.outputs += outputs
        for output in outputs:
            if output.finish is not None:
                self.finished[output.request_id] = self.now
        return shares

    def _drawn(self, share: Share, drafts: int) -> Drawn:
        """What the model gives after the share's own tokens and so many drafts."""
        return Drawn(self.model(share.sequence.tokens + share.drafts[:drafts]))

    def run(self, steps: int = 10_000) -> list[dict[str, int]]:
        """Steps until nothing is live, as many as given at most."""
        taken: list[dict[str, int]] = []
        while not self.scheduler.idle and len(taken) < steps:
            taken.append(self.step())
        return taken

    def tokens_of(self, name: str) -> int:
        return sum(o.request_id == name and o.token_id is not None for o in self.outputs)

    def finish_of(self, name: str) -> FinishReason | None:
        return next((o.finish for o in self.outputs if o.request_id == name and o.finish), None)
