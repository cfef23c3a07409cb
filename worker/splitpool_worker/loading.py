"""A model from its source URI into memory, sized to the quotas."""

import logging
import time
from collections.abc import Mapping

import torch

from splitpool_worker import tokenizer
from splitpool_worker.config import WorkerConfig
from splitpool_worker.inspect import ModelCard, describe
from splitpool_worker.metrics import ClassMemory
from splitpool_worker.runner import TorchRunner
from splitpool_worker.sequence import LatencyClass
from splitpool_worker.serving import Model
from splitpool_worker.vram import VramParts, size_kv
from splitpool_worker.weights import resolve

log = logging.getLogger(__name__)

# Larger than the caches of any processor, small beside any quota.
PROBE_BYTES = 128 << 20


def load(config: WorkerConfig) -> Model:
    """Raises ModelNotFound, ModelUnreadable, BadModelLength, OpsUnavailable, QuotaTooSmall."""
    wanted = "cpu" if config.device == "cpu" and config.ops != "reference" else "reference"
    card, parts = _sized(config, wanted)
    runner = _runner(config, card, parts, config.ops)
    if runner.ops_name != wanted:  # no compiler: the reference operations need other workspace
        card, parts = _sized(config, runner.ops_name)
        runner = _runner(config, card, parts, runner.ops_name)
    return Model(
        runner=runner,
        text=tokenizer.load(resolve(config.model)),
        memory={cls: _memory(part, card) for cls, part in parts.items()},
        ops=runner.ops_name,
        bytes_per_second=_bandwidth(config.device),
    )


def _sized(config: WorkerConfig, ops: str) -> tuple[ModelCard, Mapping[LatencyClass, VramParts]]:
    card = describe(
        config.model,
        config.dtype,
        max_model_len=config.max_model_len,
        block_size=config.block_size,
        max_tokens=sum(part.token_budget for part in config.classes),
        max_rows=sum(part.max_batch for part in config.classes),
        ops=ops,
    )
    return card, size_kv(card, {part.cls: part.vram_bytes for part in config.classes})


def _runner(
    config: WorkerConfig, card: ModelCard, parts: Mapping[LatencyClass, VramParts], ops: str
) -> TorchRunner:
    return TorchRunner.load(
        config.model,
        dtype=config.dtype,
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


def _bandwidth(device: str) -> float:
    """Bytes per second that this device reads from its memory, the best of three."""
    probe = torch.ones(PROBE_BYTES // 4, dtype=torch.float32, device=device)
    seconds = []
    for _ in range(3):
        started = time.perf_counter()
        probe.sum().item()
        seconds.append(time.perf_counter() - started)
    return PROBE_BYTES / min(seconds)
