"""What this worker measures: steps as the engine reports them, requests as their tokens come."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, generate_latest

from splitpool_worker.api.generation import Choice, Generation
from splitpool_worker.api.series import Gaps, OwnSeries, VllmSeries
from splitpool_worker.fences.verdict import Fence
from splitpool_worker.schedule.sequence import LatencyClass
from splitpool_worker.schedule.stats import ClassLoad, ClassStep, StepStats


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassMemory:
    """Bytes of one class's quota: what it is spent on, and what a token in the KV cache takes."""

    quota: int
    context: int
    weights: int
    workspace: int
    kv: int
    kv_bytes_per_token: int

    def used(self, kv_used_tokens: int) -> int:
        """Bytes in use: everything fixed, and the KV of the tokens that are there."""
        fixed = self.context + self.weights + self.workspace
        return fixed + kv_used_tokens * self.kv_bytes_per_token


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """The labels of a worker's series."""

    pool: str
    namespace: str
    model: str


class Metrics:
    """All series of one worker. Steps are reported by the engine's thread, the rest by the loop.

    `bytes_per_second` is the memory's own speed, as a probe has found it, against which decode
    steps are held.
    """

    def __init__(
        self,
        identity: Identity,
        memory: Mapping[LatencyClass, ClassMemory],
        *,
        fence: Fence,
        block_size: int,
        bytes_per_second: float | None = None,
    ) -> None:
        self._registry = CollectorRegistry()
        self._own = OwnSeries(self._registry)
        self._vllm = VllmSeries(self._registry)
        self._memory = memory
        self._bytes_per_second = bytes_per_second
        self._worker = {
            "pool": identity.pool,
            "namespace": identity.namespace,
            "model": identity.model,
        }
        self._model = identity.model
        self._declare(fence, block_size)
        self._gaps = Gaps(self._worker, [cls.value for cls in memory])
        self._registry.register(self._gaps)
        self._generated = dict.fromkeys(memory, 0)  # tokens not yet in their counters

    def _declare(self, fence: Fence, block_size: int) -> None:
        """Constants, and zeros: a series that is not there yet looks like one that broke."""
        for cls, memory in self._memory.items():
            labels = self._class(cls)
            self._own.vram_quota.labels(**labels).set(memory.quota)
            self._own.vram_weights.labels(**labels).set(memory.weights)
            self._own.vram_kv.labels(**labels).set(memory.kv)
            self._own.vram_violations.labels(**labels)
            for outcome in ("accepted", "rejected"):
                self._own.drafts.labels(**labels, outcome=outcome)
        limit = self._own.vram_limit.labels(**self._worker, enforcement=fence.enforcement.value)
        limit.set(math.inf if fence.limit is None else fence.limit)
        kv = sum(memory.kv // memory.kv_bytes_per_token for memory in self._memory.values())
        self._vllm.cache_config.labels(self._model, str(block_size), str(kv // block_size)).set(1)
        for reason in ("stop", "length", "abort", "error"):
            self._vllm.success.labels(self._model, reason)

    def _class(self, cls: LatencyClass) -> dict[str, str]:
        return self._worker | {"class": cls.value}

    def render(self, load: Mapping[LatencyClass, ClassLoad], replay_bytes: int) -> bytes:
        """The text that Prometheus scrapes, with the gauges as they are now."""
        self._own.replay.labels(**self._worker).set(replay_bytes)
        self._vllm.waiting.labels(self._model).set(sum(part.waiting for part in load.values()))
        self._vllm.running.labels(self._model).set(sum(part.running for part in load.values()))
        used = sum(part.kv_used_tokens for part in load.values())
        total = sum(part.kv_tokens for part in load.values())
        self._vllm.kv_usage.labels(self._model).set(used / total if total else 0.0)
        for cls, part in load.items():
            self._use(cls, part.kv_used_tokens)
            self._count_generated(cls)
        return generate_latest(self._registry)

    def _count_generated(self, cls: LatencyClass) -> None:
        count, self._generated[cls] = self._generated[cls], 0
        self._own.tokens.labels(**self._class(cls), kind="generation").inc(count)
        self._vllm.generation_tokens.labels(self._model).inc(count)

    def _count_drafts(self, cls: LatencyClass, step: ClassStep) -> None:
        if not step.draft_tokens:
            return
        drafts, labels = self._own.drafts, self._class(cls)
        drafts.labels(**labels, outcome="accepted").inc(step.accepted_tokens)
        drafts.labels(**labels, outcome="rejected").inc(step.draft_tokens - step.accepted_tokens)
        self._vllm.drafts.labels(self._model).inc(step.draft_tokens)
        self._vllm.accepted.labels(self._model).inc(step.accepted_tokens)

    def _use(self, cls: LatencyClass, kv_used_tokens: int) -> None:
        labels, memory = self._class(cls), self._memory[cls]
        used = memory.used(kv_used_tokens)
        self._own.vram_used.labels(**labels).set(used)
        if used > memory.quota:
            self._own.vram_violations.labels(**labels).inc()

    def on_step(self, stats: StepStats) -> None:
        """One engine step, from the engine's thread."""
        for part, seconds in stats.parts.items():
            self._own.step.labels(**self._worker, part=part).observe(seconds)
        for cls, step in stats.classes.items():
            self._own.utilisation.labels(**self._class(cls)).set(step.utilisation)
            self._use(cls, step.kv_used_tokens)
            self._count_drafts(cls, step)
            self._vllm.preemptions.labels(self._model).inc(step.preemptions)
            self._vllm.prefix_queries.labels(self._model).inc(step.prefix_query_tokens)
            self._vllm.prefix_hits.labels(self._model).inc(step.prefix_hit_tokens)
        self._measure_bandwidth(stats)

    def _measure_bandwidth(self, stats: StepStats) -> None:
        """MBU of a pure decode step: (weights + KV that it reads) / bandwidth / its seconds."""
        steps = stats.classes.values()
        forward = stats.forward
        decodes = sum(step.decode_tokens for step in steps)
        if not self._bytes_per_second or not forward or not decodes:
            return
        if any(step.prefill_tokens for step in steps):
            return
        read = sum(memory.weights for memory in self._memory.values()) + sum(
            step.kv_used_tokens * self._memory[cls].kv_bytes_per_token
            for cls, step in stats.classes.items()
        )
        speed = read / forward
        # Whoever reads faster than the probe at the start shows that the probe was disturbed.
        self._bytes_per_second = max(self._bytes_per_second, speed)
        self._own.mbu.labels(**self._worker).set(speed / self._bytes_per_second)

    def first_token(self, generation: Generation, choice: Choice, now: float) -> None:
        """A request's prefill is over; its prompt counts now, when it has been served."""
        labels = self._class(choice.request.cls)
        prompt = len(choice.request.prompt)
        self._vllm.ttft.labels(self._model).observe(now - generation.arrival)
        self._vllm.queue.labels(self._model).observe(generation.timings.queue)
        self._vllm.prefill.labels(self._model).observe(generation.timings.prefill)
        self._vllm.prompt_tokens.labels(self._model).inc(prompt)
        self._own.tokens.labels(**labels, kind="prompt").inc(prompt)
        self._own.tokens.labels(**labels, kind="cached").inc(choice.cached)
        self._generated[choice.request.cls] += 1

    def next_token(self, choice: Choice, gap: float) -> None:
        """One more token of a request."""
        self._gaps.observe(choice.request.cls, gap)
        self._generated[choice.request.cls] += 1

    def finished(self, generation: Generation, choice: Choice, reason: str, now: float) -> None:
        """A request ended: stop, length, abort or error."""
        self._vllm.success.labels(self._model, reason).inc()
        if reason not in ("stop", "length"):
            return
        self._vllm.e2e.labels(self._model).observe(now - generation.arrival)
        if choice.tokens > 1:
            tpot = (choice.last_at - choice.first_at) / (choice.tokens - 1)
            self._own.tpot.labels(**self._class(choice.request.cls)).observe(tpot)
