"""How many bytes a model takes: weights as they are held, KV per token, and the largest step.

Pure arithmetic. Every figure is an upper bound of what is really allocated; tests hold it to that.
"""

from collections.abc import Mapping

from splitpool_worker.models.config import ModelConfig
from splitpool_worker.models.tensors import Shape, expected

DTYPE_BYTES = {"bfloat16": 2, "float32": 4}
QUANTIZATIONS = ("none", "int8")

# The C++ operations keep weights in panels of this many rows, the last one filled up with zeros.
PANEL_ROWS = 16
# In int8 a row has its scale, and 128 times the sum of its elements; a row of activations has its
# scale in a line of its own.
INT8_WEIGHT_ROW, INT8_ROW = 8, 64
# What the reference attention handles at once, and what C++ threads keep on their stacks.
REFERENCE_QUERY_ROWS = 64
SMALL_BUFFERS = 4 << 20
REPLAYED_ROWS = 512
"""Rows of the largest step that the C++ operations replay; what it makes lies in memory that is
kept for the next."""


def weights_bytes(config: ModelConfig, itemsize: int, max_len: int, quantization: str) -> int:
    """All weights, each once (a tied embedding is the head), and the rotary tables."""
    norms = sum(shape[0] for shape in expected(config).values() if len(shape) == 1)
    matrices = matrix_bytes(config, itemsize, quantization)
    return (norms + max_len * config.head_dim) * itemsize + matrices


def matrix_bytes(config: ModelConfig, itemsize: int, quantization: str) -> int:
    """The weights that are multiplied with, as the C++ operations hold them."""
    int8 = quantization == "int8"
    return sum(
        -(-shape[0] // PANEL_ROWS)
        * PANEL_ROWS
        * (shape[1] + INT8_WEIGHT_ROW if int8 else shape[1] * itemsize)
        for shape in expected(config).values()
        if len(shape) == 2
    )


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
    config: ModelConfig,
    itemsize: int,
    *,
    tokens: int,
    rows: int,
    max_len: int,
    ops: str,
    quantization: str,
) -> int:
    """What one step of `tokens` rows, `rows` of them sampled, allocates at most at one time."""
    indices = tokens * 3 * 8 + rows * (8 + 4 * max_len)
    logits = (
        rows * (config.hidden_size + config.vocab_size) * itemsize + rows * config.vocab_size * 4
    )
    if ops == "cpu":
        tokens += REPLAYED_ROWS
        layers = tokens * _activations(config) * itemsize
    else:
        layers = _reference_layers(config, itemsize, tokens, max_len)
    if quantization == "int8":
        layers += _int8_layers(config, tokens, ops)
    return layers + logits + indices + SMALL_BUFFERS


def _activations(config: ModelConfig) -> int:
    """Elements a row of all that a layer's pass names, with what it is about to replace."""
    attention = 2 * config.qkv_size + config.query_size
    return 5 * config.hidden_size + attention + 2 * config.intermediate_size


def _int8_layers(config: ModelConfig, tokens: int, ops: str) -> int:
    """What quantising adds: rows in int8; the reference has them and weights as floats, too."""
    columns = max(config.intermediate_size, config.query_size, config.hidden_size)
    if ops == "cpu":
        return tokens * 2 * (columns + INT8_ROW)
    largest = max(shape[0] * shape[-1] for shape in expected(config).values())
    return (tokens * 3 * (columns + 2 * config.intermediate_size) + 2 * largest) * 4


def _reference_layers(config: ModelConfig, itemsize: int, tokens: int, max_len: int) -> int:
    # The reference holds gate and up, the activated gate, and their product one after another.
    rows = tokens * (_activations(config) + 3 * config.intermediate_size) * itemsize
    norm = tokens * config.hidden_size * 3 * 4
    gathered = 2 * max_len * (config.kv_size * (itemsize + 4) + 2 * config.query_size * 4)
    scores = REFERENCE_QUERY_ROWS * max_len * (config.num_heads * 4 * 3 + 1)
    # A library's own copy of the largest weight, which it may reorder in every call.
    reordered = max(shape[0] * shape[-1] for shape in expected(config).values()) * itemsize
    return rows + norm + gathered + scores + reordered
