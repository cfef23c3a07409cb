"""How many bytes a model takes: weights as they are held, KV per token, and the largest step.

Pure arithmetic. Every figure is an upper bound of what is really allocated; tests hold it to that.
"""

from collections.abc import Mapping

from splitpool_worker.models.config import ModelConfig
from splitpool_worker.models.tensors import Shape, expected

DTYPE_BYTES = {"bfloat16": 2, "float32": 4}

# The C++ operations keep weights in panels of this many rows, the last one filled up with zeros.
PANEL_ROWS = 16
# What the reference attention handles at once, and what C++ threads keep on their stacks.
REFERENCE_QUERY_ROWS = 64
SMALL_BUFFERS = 4 << 20


def weights_bytes(config: ModelConfig, itemsize: int, max_len: int) -> int:
    """All weights, each once (a tied embedding is the head), and the rotary tables."""
    norms = sum(shape[0] for shape in expected(config).values() if len(shape) == 1)
    return (norms + max_len * config.head_dim) * itemsize + matrix_bytes(config, itemsize)


def matrix_bytes(config: ModelConfig, itemsize: int) -> int:
    """The weights that are multiplied with, as the C++ operations hold them."""
    matrices = (shape for shape in expected(config).values() if len(shape) == 2)
    held = (-(-rows // PANEL_ROWS) * PANEL_ROWS * columns for rows, columns in matrices)
    return sum(held) * itemsize


def parameters(shapes: Mapping[str, Shape], config: ModelConfig) -> int:
    total = 0
    for name in expected(config):
        size = 1
        for extent in shapes[name]:
            size *= extent
        total += size
    return total


def kv_bytes_per_token(config: ModelConfig, itemsize: int) -> int:
    return 2 * config.num_layers * config.kv_size * itemsize


def workspace_bytes(
    config: ModelConfig, itemsize: int, *, tokens: int, rows: int, max_len: int, ops: str
) -> int:
    """What one step of `tokens` rows, `rows` of them sampled, allocates at most at one time."""
    indices = tokens * 3 * 8 + rows * (8 + 4 * max_len)
    logits = (
        rows * (config.hidden_size + config.vocab_size) * itemsize + rows * config.vocab_size * 4
    )
    if ops == "cpu":
        layers = tokens * _activations(config) * itemsize
    else:
        layers = _reference_layers(config, itemsize, tokens, max_len)
    return layers + logits + indices + SMALL_BUFFERS


def _activations(config: ModelConfig) -> int:
    """Elements a row of all that a layer's pass names, with what it is about to replace."""
    attention = 2 * config.qkv_size + config.query_size
    return 5 * config.hidden_size + attention + 2 * config.intermediate_size


def _reference_layers(config: ModelConfig, itemsize: int, tokens: int, max_len: int) -> int:
    # The reference holds gate and up, the activated gate, and their product one after another.
    rows = tokens * (_activations(config) + 3 * config.intermediate_size) * itemsize
    norm = tokens * config.hidden_size * 3 * 4
    gathered = 2 * max_len * (config.kv_size * (itemsize + 4) + 2 * config.query_size * 4)
    scores = REFERENCE_QUERY_ROWS * max_len * (config.num_heads * 4 * 3 + 1)
    # A library's own copy of the largest weight, which it may reorder in every call.
    reordered = max(shape[0] * shape[-1] for shape in expected(config).values()) * itemsize
    return rows + norm + gathered + scores + reordered
