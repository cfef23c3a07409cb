"""The model against transformers, and against itself however its tokens are batched and cut."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path

import pytest
import torch
from transformers import AutoTokenizer, LlamaForCausalLM

from llama_models import (
    LLAMA3_ROPE,
    SMOLLM2,
    Fed,
    batch_of,
    feed,
    greedy,
    random_model,
    save,
    smollm2_in_transformers,
    tiny_config,
)
from splitpool_worker.checkpoint.weights import resolve
from splitpool_worker.engine.runner import TorchRunner

NEW_TOKENS = 16
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
# A first difference is allowed only where transformers' two best logits are this close.
GAPS = {"float32": 0.001, "bfloat16": 0.25}

SUBJECTS = (
    "the capital of France", "a black hole", "the French Revolution", "photosynthesis",
    "a good bread dough", "the number pi", "my grandmother's garden", "TCP congestion control",
    "the 1966 World Cup", "a haiku about rain", "quantum computers", "the price of 17 apples",
    "Ünïcödé and 日本語",
)  # fmt: skip
TEMPLATES = (
    "Write one sentence about {}.",
    "Q: What do you know about {}?\nA:",
    "def describe():\n    '''Says something about {}.'''\n    return",
    "Once upon a time there was a story that began with {}, and everybody in the village agreed "
    "that it was the strangest of all stories, because",
)


WORDS = (
    "red green blue", "cat dog cow pig", "north east south west", "one two three",
    "sun moon star", "Anna Bob Carl", "iron gold tin lead", "yes no maybe", "rice beans corn",
    "up down left right", "salt and pepper", "Rome Paris Berlin Madrid",
)  # fmt: skip
STRIDES = (
    (1, 1), (10, 10), (100, 5), (3, 3), (7, 1), (2000, 1), (50, 2), (1900, 10), (5, 5), (20, 2),
    (300, 100), (41, 1), (1000, 1), (4, 4),
)  # fmt: skip


@cache
def prompts() -> list[list[int]]:
    """Free text, whose continuation is often a matter of the last bits."""
    return encoded([template.format(subject) for template in TEMPLATES for subject in SUBJECTS])


@cache
def plain_prompts() -> list[list[int]]:
    """Texts with a pattern, whose continuation is mostly clear.

    In bfloat16 transformers does not even agree with itself on free text: `generate` and one
    forward pass over its answer part on a quarter of `prompts`, at gaps up to 0.25.
    """
    return encoded(
        [", ".join(map(str, range(first, first + 20 * by, by))) + "," for first, by in STRIDES]
        + [f"{words.replace(' ', ', ')}; " * 6 + f"{words.split()[0]}," for words in WORDS]
        + ["".join(f"item {n}: {words.split()[0]}\n" for n in range(1, 12)) for words in WORDS]
        + [f"<li>{words}</li>\n" * 7 for words in WORDS]
        + ["".join(f"{name}{n} = {n}\n" for n in range(1, 14)) for name in ("x", "var_", "row")]
    )


def encoded(texts: list[str]) -> list[list[int]]:
    path = resolve(SMOLLM2)
    tokenizer = AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name)
    ids: list[list[int]] = tokenizer(texts)["input_ids"]
    return ids


@cache
def in_transformers(dtype: str) -> LlamaForCausalLM:
    return smollm2_in_transformers(DTYPES[dtype])


def runner_of(source: str | Path, dtype: str, ops: str = "auto", blocks: int = 700) -> TorchRunner:
    return TorchRunner.load(source, dtype=dtype, ops=ops, num_blocks=blocks, max_model_len=512)


@torch.no_grad()
def teacher_forced(model: LlamaForCausalLM, tokens: Sequence[int], last: int = 0) -> torch.Tensor:
    """transformers' logits of every token, or of the `last` ones."""
    logits: torch.Tensor = model(torch.tensor([tokens]), logits_to_keep=last).logits[0].float()
    return logits


def first_gap(model: LlamaForCausalLM, prompt: list[int], answer: list[int]) -> float | None:
    """transformers' gap between its two best where its greedy answer leaves ours, if it does."""
    logits = teacher_forced(model, prompt + answer, len(answer) + 1)[:-1]
    best = logits.argmax(-1).tolist()
    for row, (theirs, ours) in enumerate(zip(best, answer, strict=True)):
        if theirs != ours:
            top = logits[row].topk(2).values
            return float(top[0] - top[1])
    return None


@cache
def answers_from_gguf(dtype: str) -> list[list[int]]:
    return greedy(runner_of(SMOLLM2, dtype), questions(dtype), NEW_TOKENS)


def questions(dtype: str) -> list[list[int]]:
    return prompts() if dtype == "float32" else plain_prompts()


@pytest.mark.parametrize("dtype", DTYPES)
def test_greedy_answers_equal_those_of_transformers(dtype: str) -> None:
    asked, answers = questions(dtype), answers_from_gguf(dtype)
    assert len(asked) >= 50
    model = in_transformers(dtype)
    gaps = [first_gap(model, *pair) for pair in zip(asked, answers, strict=True)]
    found = [value for value in gaps if value is not None]
    assert all(value < GAPS[dtype] for value in found), found
    assert len(found) <= len(asked) // 10, found


def test_a_directory_of_the_same_weights_gives_the_same_answers(tmp_path: Path) -> None:
    folder = save(in_transformers("bfloat16"), tmp_path / "model")
    answers = greedy(runner_of(folder.as_uri(), "bfloat16"), plain_prompts(), NEW_TOKENS)
    assert answers == answers_from_gguf("bfloat16")


def test_the_reference_answers_as_transformers_does() -> None:
    few = prompts()[:6]
    answers = greedy(runner_of(SMOLLM2, "float32", "reference", 40), few, 8)
    model = in_transformers("float32")
    assert [first_gap(model, *pair) for pair in zip(few, answers, strict=True)] == [None] * 6


def known_text() -> list[int]:
    return [token for prompt in prompts() for token in prompt][:300]


def test_logits_of_a_known_text_equal_those_of_transformers() -> None:
    tokens = known_text()
    fed = Fed(blocks=list(range(19)), tokens=tokens)
    found = feed(runner_of(SMOLLM2, "float32", blocks=19), fed, [300])
    expected = teacher_forced(in_transformers("float32"), tokens)
    assert float((found - expected).abs().max()) < 2e-3


def test_bfloat16_strays_from_float32_no_more_than_transformers_does() -> None:
    tokens = known_text()
    exact = teacher_forced(in_transformers("float32"), tokens)
    fed = Fed(blocks=list(range(19)), tokens=tokens)
    ours = feed(runner_of(SMOLLM2, "bfloat16", blocks=19), fed, [300]) - exact
    theirs = teacher_forced(in_transformers("bfloat16"), tokens) - exact
    assert float(ours.square().mean()) < 1.2 * float(theirs.square().mean())


CONFIGS = {
    "llama3 rope": {"rope_parameters": LLAMA3_ROPE},
    "linear rope": {
        "rope_parameters": {"rope_type": "linear", "rope_theta": 10000.0, "factor": 2.0}
    },
    "tied": {"tie_word_embeddings": True},
    "one key head": {"num_key_value_heads": 1, "head_dim": 64},
    "a key head each": {"num_key_value_heads": 6},
    "shapes without kernels": {"head_dim": 20, "hidden_size": 60, "num_attention_heads": 6},
}


@pytest.mark.parametrize("ops", ["auto", "reference"])
@pytest.mark.parametrize("changes", CONFIGS.values(), ids=CONFIGS)
def test_logits_of_other_shapes_equal_those_of_transformers(
    tmp_path: Path, ops: str, changes: dict[str, object]
) -> None:
    model = random_model(tiny_config(**changes))
    tokens = torch.randint(203, (400,), generator=torch.Generator().manual_seed(1)).tolist()
    runner = runner_of(save(model, tmp_path), "float32", ops, blocks=25)
    found = feed(runner, Fed(blocks=list(range(25)), tokens=tokens), [200, 1, 1, 98, 100])
    torch.testing.assert_close(found, teacher_forced(model, tokens), rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("cut", [[1] * 10 + [30], [7] * 5 + [5], [16, 16, 8], [39, 1]], ids=str)
def test_chunks_change_no_bit_of_the_logits(dtype: str, cut: list[int]) -> None:
    runner = small_runner(dtype)
    tokens = known_text()[:40]
    whole = feed(runner, Fed(blocks=[0, 1, 2], tokens=tokens), [40])
    chunked = feed(runner, Fed(blocks=[5, 3, 4], tokens=tokens), cut)
    assert torch.equal(chunked, whole)


@pytest.mark.parametrize("dtype", DTYPES)
def test_mates_in_a_batch_change_no_bit_of_the_logits(dtype: str) -> None:
    runner = small_runner(dtype)
    chosen = prompts()[::7]
    alone = [
        feed(runner, Fed(blocks=list(range(6)), tokens=prompt), [len(prompt)])[-1]
        for prompt in chosen
    ]
    feds = [
        Fed(blocks=list(range(6 * index, 6 * index + 6)), tokens=prompt)
        for index, prompt in enumerate(chosen)
    ]
    together = runner.forward(batch_of([(fed, len(fed.tokens)) for fed in feds], 16))
    assert torch.equal(together, torch.stack(alone))


@pytest.mark.parametrize("ops", ["auto", "reference"])
def test_nan_in_blocks_of_nobody_changes_nothing(ops: str) -> None:
    runner = runner_of(SMOLLM2, "bfloat16", ops, blocks=8)
    tokens = prompts()[13][:10]
    before = feed(runner, Fed(blocks=[3], tokens=tokens), [9, 1])
    runner.poison(range(8))
    assert torch.equal(feed(runner, Fed(blocks=[3], tokens=tokens), [9, 1]), before)
    runner.poison([3])
    fed = Fed(blocks=[3], tokens=tokens, stored=9)
    assert feed(runner, fed, [1]).isnan().all()


@cache
def small_runner(dtype: str) -> TorchRunner:
    return runner_of(SMOLLM2, dtype, "cpu", blocks=60)
