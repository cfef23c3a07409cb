"""How a model fits this worker's quotas, from its header alone: quick, and without torch."""

from collections.abc import Mapping

from splitpool_worker.checkpoint.inspect import ModelCard, describe
from splitpool_worker.config import WorkerConfig
from splitpool_worker.schedule.limits import most_sampled
from splitpool_worker.schedule.sequence import LatencyClass
from splitpool_worker.vram import VramParts, size_kv


def expected_ops(config: WorkerConfig) -> str:
    """The operations that will run, where they can be compiled."""
    return "cpu" if config.device == "cpu" and config.ops != "reference" else "reference"


def sized(config: WorkerConfig, ops: str) -> tuple[ModelCard, Mapping[LatencyClass, VramParts]]:
    """What the model takes, and each class's parts. Raises ModelNotFound, ModelUnreadable,
    BadModelLength, QuotaTooSmall."""
    card = describe(
        config.model,
        config.dtype,
        max_model_len=config.max_model_len,
        block_size=config.block_size,
        max_tokens=sum(part.token_budget for part in config.classes),
        max_rows=most_sampled((part.max_batch for part in config.classes), config.draft_tokens),
        ops=ops,
        quantization=config.quantization,
    )
    return card, size_kv(card, {part.cls: part.vram_bytes for part in config.classes})
