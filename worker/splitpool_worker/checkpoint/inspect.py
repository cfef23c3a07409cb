"""What a model needs before anything is loaded: `describe` reads the header only, without torch."""

from dataclasses import dataclass

from splitpool_worker.checkpoint import footprint
from splitpool_worker.checkpoint.weights import open_checkpoint, resolve

DEFAULT_MAX_TOKENS = 512


class BadModelLength(ValueError):
    """The maximum length asked for is none that this model has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCard:
    """One model at one dtype, quantization and maximum length; sizes in bytes."""

    architecture: str
    parameters: int
    weights_bytes: int
    kv_bytes_per_token: int
    workspace_bytes: int
    context_bytes: int
    model_max_len: int
    max_model_len: int
    block_size: int
    vocab_size: int

    def to_json(self) -> dict[str, str | int]:
        """The object that the `inspect` subcommand prints."""
        return {
            "architecture": self.architecture,
            "parameters": self.parameters,
            "weightsBytes": self.weights_bytes,
            "kvBytesPerToken": self.kv_bytes_per_token,
            "workspaceBytes": self.workspace_bytes,
            "contextBytes": self.context_bytes,
            "modelMaxLen": self.model_max_len,
            "maxModelLen": self.max_model_len,
            "blockSize": self.block_size,
            "vocabSize": self.vocab_size,
        }


def describe(
    source: str,
    dtype: str,
    *,
    max_model_len: int | None = None,
    block_size: int = 16,
    max_tokens: int = DEFAULT_MAX_TOKENS,
    max_rows: int | None = None,
    ops: str = "cpu",
    quantization: str = "none",
) -> ModelCard:
    """The card of the model at a source URI.

    `max_tokens` is the largest step in tokens, `max_rows` the most rows that it samples (default:
    all of them, at most 64); `ops` names the operations the worker will run on.
    Raises ModelNotFound, ModelUnreadable, BadModelLength.
    """
    itemsize = footprint.DTYPE_BYTES[dtype]
    with open_checkpoint(resolve(source)) as checkpoint:
        config, shapes = checkpoint.config, dict(checkpoint.shapes)
    max_len = bounded_length(max_model_len, config.max_len)
    return ModelCard(
        architecture=config.architecture,
        parameters=footprint.parameters(shapes, config),
        weights_bytes=footprint.weights_bytes(config, itemsize, max_len, quantization),
        kv_bytes_per_token=footprint.kv_bytes_per_token(config, itemsize),
        workspace_bytes=footprint.workspace_bytes(
            config,
            itemsize,
            tokens=max_tokens,
            rows=min(max_tokens, 64) if max_rows is None else max_rows,
            max_len=max_len,
            ops=ops,
            quantization=quantization,
        ),
        context_bytes=0,
        model_max_len=config.max_len,
        max_model_len=max_len,
        block_size=block_size,
        vocab_size=config.vocab_size,
    )


def bounded_length(asked: int | None, model_max_len: int) -> int:
    """The maximum length to serve. Raises BadModelLength."""
    if asked is None:
        return model_max_len
    if not 1 <= asked <= model_max_len:
        raise BadModelLength(
            f"maxModelLen {asked}: this model has positions for 1 to {model_max_len} tokens; "
            "give a value in that range or leave it out"
        )
    return asked
