"""How likely is a text to a model? Its mean negative log-likelihood a token."""

from pathlib import Path

import torch

from llama_models import Fed, feed
from splitpool_worker.checkpoint.weights import resolve
from splitpool_worker.engine.runner import TorchRunner
from splitpool_worker.text.tokenizer import load

TEXT = Path(__file__).parents[1] / "bench" / "perplexity.txt"


def tokens_of(source: str, text: Path) -> list[int]:
    return load(resolve(source)).encode(text.read_text())


def loss(runner: TorchRunner, tokens: list[int]) -> float:
    """Of every token but the first."""
    blocks = list(range(-(-len(tokens) // runner.block_size)))
    logits = feed(runner, Fed(blocks=blocks, tokens=tokens), [len(tokens)])[:-1]
    return float(torch.nn.functional.cross_entropy(logits, torch.tensor(tokens[1:])))
