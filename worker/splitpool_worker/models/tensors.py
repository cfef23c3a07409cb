"""The tensors of a Llama checkpoint: names, shapes, and whether a file has exactly those."""

from collections.abc import Iterator, Mapping

from splitpool_worker.models.config import ModelConfig

Shape = tuple[int, ...]

EMBEDDING = "model.embed_tokens.weight"
FINAL_NORM = "model.norm.weight"
HEAD = "lm_head.weight"
ROPE_DIVISORS = "rope_freqs.weight"


def layer_tensor(layer: int, part: str) -> str:
    return f"model.layers.{layer}.{part}.weight"


def expected(config: ModelConfig) -> dict[str, Shape]:
    """Every tensor that the model needs, by its Hugging Face name."""
    shapes: dict[str, Shape] = {
        EMBEDDING: (config.vocab_size, config.hidden_size),
        FINAL_NORM: (config.hidden_size,),
    }
    if not config.tied_embeddings:
        shapes[HEAD] = (config.vocab_size, config.hidden_size)
    for layer in range(config.num_layers):
        for part, shape in _layer(config).items():
            shapes[layer_tensor(layer, part)] = shape
    return shapes


def _layer(config: ModelConfig) -> dict[str, Shape]:
    hidden, inner = config.hidden_size, config.intermediate_size
    return {
        "input_layernorm": (hidden,),
        "self_attn.q_proj": (config.query_size, hidden),
        "self_attn.k_proj": (config.kv_size, hidden),
        "self_attn.v_proj": (config.kv_size, hidden),
        "self_attn.o_proj": (hidden, config.query_size),
        "post_attention_layernorm": (hidden,),
        "mlp.gate_proj": (inner, hidden),
        "mlp.up_proj": (inner, hidden),
        "mlp.down_proj": (hidden, inner),
    }


def mismatches(config: ModelConfig, found: Mapping[str, Shape]) -> Iterator[str]:
    """One sentence for each tensor that is missing, has another shape, or has no use here."""
    wanted = expected(config)
    for name, shape in wanted.items():
        if name not in found:
            yield f"tensor {name} is missing"
        elif found[name] != shape:
            yield f"tensor {name} has shape {list(found[name])}, the header says {list(shape)}"
    for name in found.keys() - wanted.keys() - {ROPE_DIVISORS}:
        if name.endswith(".bias"):
            yield f"tensor {name}: biases are not supported"
        elif not (name == HEAD or name.endswith(".inv_freq")):
            yield f"tensor {name} belongs to no plain Llama model"
