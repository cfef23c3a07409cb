"""A model from its source URI into memory, sized to the quotas."""

import logging
import socket
import threading
import time
from collections.abc import Mapping

import torch

from splitpool_worker.api.metrics import ClassMemory
from splitpool_worker.checkpoint import heap
from splitpool_worker.checkpoint.inspect import ModelCard
from splitpool_worker.checkpoint.weights import resolve
from splitpool_worker.config import ConfigError, WorkerConfig
from splitpool_worker.engine.runner import TorchRunner
from splitpool_worker.fences import seeing
from splitpool_worker.schedule.sequence import LatencyClass
from splitpool_worker.serving import Model
from splitpool_worker.sizing import expected_ops, sized
from splitpool_worker.text import tokenizer
from splitpool_worker.vram import VramParts

log = logging.getLogger(__name__)

# Larger than the caches of any processor, small beside any quota.
PROBE_BYTES = 128 << 20


def load(config: WorkerConfig) -> Model:
    """Raises ModelNotFound, ModelUnreadable, BadModelLength, OpsUnavailable, QuotaTooSmall, and
    ConfigError where the device is not there."""
    if config.device == "cuda" and not torch.cuda.is_available():
        raise ConfigError(
            "--device cuda: torch sees no GPU on this machine; check its driver, or declare "
            "accelerator.type: cpu"
        )
    with heap.tidy():
        return _load(config)


def _load(config: WorkerConfig) -> Model:
    bandwidth = _bandwidth(config.device)  # first, since its probe needs memory of its own
    wanted = expected_ops(config)
    card, parts = sized(config, wanted)
    runner = _runner(config, card, parts, config.ops)
    if runner.ops_name != wanted:  # no compiler: the reference operations need other workspace
        card, parts = sized(config, runner.ops_name)
        runner = _runner(config, card, parts, runner.ops_name)
    text = tokenizer.load(resolve(config.model))
    # The first requests need not wait for it: they find what they touch as before. Last of all,
    # because whoever asks the system for memory meanwhile waits for its pieces.
    threading.Thread(target=runner.commit, name="commit-cache", daemon=True).start()
    fence = seeing.fence(config)
    log.info("fence: %s (%s)", fence.enforcement, fence.seen)
    return Model(
        runner=runner,
        text=text,
        memory={cls: _memory(part, card) for cls, part in parts.items()},
        ops=runner.ops_name,
        device=_device(config),
        fence=fence,
        bytes_per_second=bandwidth,
    )


def _runner(
    config: WorkerConfig, card: ModelCard, parts: Mapping[LatencyClass, VramParts], ops: str
) -> TorchRunner:
    return TorchRunner.load(
        config.model,
        dtype=config.dtype,
        quantization=config.quantization,
        device=config.device,
        ops=ops,
        block_size=config.block_size,
        num_blocks=sum(part.kv_blocks for part in parts.values()),
        max_model_len=card.max_model_len,
        threads=config.threads,
        quota_bytes=sum(part.quota for part in parts.values()),
    )


def _memory(part: VramParts, card: ModelCard) -> ClassMemory:
    return ClassMemory(
        quota=part.quota,
        context=part.context,
        weights=part.weights,
        workspace=part.workspace,
        kv=part.kv,
        kv_bytes_per_token=card.kv_bytes_per_token,
    )


def _device(config: WorkerConfig) -> str:
    if config.device == "cuda":
        return f"GPU-{torch.cuda.get_device_properties(0).uuid}"
    return config.node_name or socket.gethostname()


def _bandwidth(device: str) -> float:
    """Bytes per second that this device reads from its memory, the best of three."""
    probe = torch.ones(PROBE_BYTES // 4, dtype=torch.float32, device=device)
    seconds = []
    for _ in range(3):
        started = time.perf_counter()
        probe.sum().item()
        seconds.append(time.perf_counter() - started)
    return PROBE_BYTES / min(seconds)
