"""Runs requests through the worker's own engine, in this process, and times their tokens."""

import random
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from splitpool_bench.stats import quantile
from splitpool_bench.sweeping.settings import CONTEXT, Ask, Setting
from splitpool_worker.engine.batch import Runner
from splitpool_worker.engine.engine import ClassLimits, Engine, WorkerLimits
from splitpool_worker.schedule.sequence import LatencyClass, Request, SamplingParams, TokenOutput

BLOCK_SIZE = 16
KV_TOKENS = 32_768
LIMIT_SECONDS = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """One run: tokens a second of all answers, and quantiles in milliseconds."""

    tokens_per_second: float
    ttft_p50: float
    ttft_p99: float
    gap_p50: float
    gap_p99: float


@dataclass(slots=True)
class _Seen:
    due: float
    times: list[float] = field(default_factory=list)
    ended: float = 0.0


class _Record:
    """When each token came."""

    def __init__(self) -> None:
        self.seen: dict[str, _Seen] = {}
        self.left = 0
        self.all_ended = threading.Event()

    def on_outputs(self, outputs: Sequence[TokenOutput]) -> None:
        now = time.monotonic()
        for output in outputs:
            seen = self.seen[output.request_id]
            if output.token_id is not None:
                seen.times.append(now)
            if output.finish is not None:
                seen.ended = now
                self.left -= 1
        if not self.left:
            self.all_ended.set()


def run(runner: Runner, setting: Setting, asks: Sequence[Ask], seed: int) -> Taken:
    """All requests, each submitted when it is due; raises RuntimeError when they do not end."""
    record = _Record()
    record.left = len(asks)
    engine = Engine(runner, _limits(setting), on_outputs=record.on_outputs)
    rng = random.Random(seed)
    requests = [_request(number, ask, rng, runner.vocab_size) for number, ask in enumerate(asks)]
    engine.start()
    try:
        began = time.monotonic()
        for request, ask in zip(requests, asks, strict=True):
            time.sleep(max(0.0, began + ask.at - time.monotonic()))
            record.seen[request.id] = _Seen(began + ask.at)
            engine.submit(request)
        if not record.all_ended.wait(LIMIT_SECONDS):
            raise RuntimeError(f"{record.left} requests had not ended after {LIMIT_SECONDS:.0f} s")
    finally:
        engine.stop(timeout=10)
    return _taken(list(record.seen.values()), began)


def _taken(seen: Sequence[_Seen], began: float) -> Taken:
    ttfts = [(each.times[0] - each.due) * 1000 for each in seen]
    gaps = [(b - a) * 1000 for each in seen for a, b in pairwise(each.times)]
    tokens = sum(len(each.times) for each in seen)
    return Taken(
        tokens_per_second=tokens / (max(each.ended for each in seen) - began),
        ttft_p50=quantile(ttfts, 0.5),
        ttft_p99=quantile(ttfts, 0.99),
        gap_p50=quantile(gaps, 0.5),
        gap_p99=quantile(gaps, 0.99),
    )


def _limits(setting: Setting) -> WorkerLimits:
    batch = ClassLimits(
        cls=LatencyClass.BATCH,
        vram_bytes=0,
        kv_blocks=KV_TOKENS // BLOCK_SIZE,
        max_batch=setting.max_batch,
        max_wait_s=setting.max_wait_ms / 1000,
        token_budget=setting.token_budget,
        prefill_chunk=setting.chunk,
        max_length_ratio=setting.length_ratio,
        prefix_cache=False,
    )
    return WorkerLimits(
        classes=(batch,),
        block_size=BLOCK_SIZE,
        max_model_len=CONTEXT,
        max_step_s=10.0,  # no limit of its own: the token budget is what is looked at
        static=setting.static,
    )


def _request(number: int, ask: Ask, rng: random.Random, vocabulary: int) -> Request:
    return Request(
        id=str(number),
        cls=LatencyClass.BATCH,
        prompt=tuple(rng.choices(range(vocabulary), k=ask.prompt)),
        max_tokens=ask.output,
        params=SamplingParams(seed=number, temperature=0.0, ignore_eos=True),
        stream=True,
        arrival=0.0,
    )
