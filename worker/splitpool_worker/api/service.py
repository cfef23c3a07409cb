"""What all routes of a worker share: its parts, what is live in it, and whether it takes more."""

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from splitpool_worker.api.bodies import Bodies
from splitpool_worker.api.delivery import Delivery
from splitpool_worker.api.errors import ApiError, engine_failed, reader_too_slow, shutting_down
from splitpool_worker.api.generation import Generation
from splitpool_worker.api.metrics import ClassMemory, Metrics
from splitpool_worker.api.streams import Registry
from splitpool_worker.config import WorkerConfig
from splitpool_worker.engine.engine import Engine
from splitpool_worker.fences.verdict import Fence
from splitpool_worker.schedule.sequence import LatencyClass
from splitpool_worker.text.tokenizer import TextModel


@dataclass(frozen=True, slots=True, kw_only=True)
class Intervals:
    """Seconds. Tests shorten them."""

    heartbeat: float = 10.0
    stall: float = 60.0  # a client that takes no byte for so long is cut off
    gather: float = 0.2
    sweep: float = 0.25
    closing: float = 5.0  # for what handlers still write when the worker ends


@dataclass(slots=True, kw_only=True, eq=False)
class Service:
    """One worker's parts. Everything runs on the event loop."""

    config: WorkerConfig
    engine: Engine
    text: TextModel
    delivery: Delivery
    streams: Registry
    metrics: Metrics
    memory: Mapping[LatencyClass, ClassMemory]
    max_model_len: int
    ops: str
    device: str
    fence: Fence
    stream_key: str
    intervals: Intervals = Intervals()
    clock: Callable[[], float] = time.monotonic
    ready: bool = True
    draining: bool = False
    bodies: Bodies = field(default_factory=Bodies)
    live: set[Generation] = field(default_factory=set)
    swept: asyncio.Condition = field(default_factory=asyncio.Condition)  # told after each sweep

    def admit(self) -> None:
        """Raises ApiError where nothing new is taken."""
        if self.draining:
            raise shutting_down()
        if not self.engine.alive:
            raise engine_failed()

    def sweep(self) -> None:
        """End what nobody will read, and everything when the engine has failed."""
        for stream in self.streams.sweep(self.clock()):
            if stream.source is not None:
                stream.source.fail(reader_too_slow())
        if not self.engine.alive:
            self.fail_all(engine_failed())

    def fail_all(self, error: ApiError) -> None:
        """End every live request with an error."""
        for generation in list(self.live):
            generation.fail(error)

    def state(self) -> dict[str, Any]:
        """What `/ready` says."""
        config, load = self.config, self.engine.load()
        return {
            "model": config.model_name,
            "pool": config.pool,
            "namespace": config.namespace,
            "name": config.name,
            "classes": [part.cls.value for part in config.classes],
            "ready": self.is_ready,
            "draining": self.draining,
            "device": self.device,
            "streamKey": self.stream_key,
            "maxModelLen": self.max_model_len,
            "ops": self.ops,
            "enforcement": self.fence.enforcement.value,
            "fence": {"limit": self.fence.limit, "seen": self.fence.seen},
            "vram": {
                cls.value: {
                    "quota": memory.quota,
                    "context": memory.context,
                    "weights": memory.weights,
                    "workspace": memory.workspace,
                    "kv": memory.kv,
                    "used": memory.used(load[cls].kv_used_tokens),
                }
                for cls, memory in self.memory.items()
            },
            "load": {
                cls.value: {
                    "outstandingTokens": part.outstanding_tokens,
                    "waiting": part.waiting,
                    "running": part.running,
                    "waitingTokens": part.waiting_tokens,
                    "kvTokens": part.kv_tokens,
                    "kvUsedTokens": part.kv_used_tokens,
                    "maxBatch": part.max_batch,
                    "tokenBudget": part.token_budget,
                }
                for cls, part in load.items()
            },
        }

    @property
    def is_ready(self) -> bool:
        """May take traffic."""
        return self.ready and not self.draining and self.engine.alive


SERVICE = web.AppKey("service", Service)
