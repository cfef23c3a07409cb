"""The model in int8: the same bits however its tokens are batched, and as good as bfloat16."""

from functools import cache
from pathlib import Path

import pytest
import torch

from llama_models import SMOLLM2, Fed, batch_of, feed, greedy, random_model, save, tiny_config
from splitpool_worker.engine.runner import TorchRunner
from splitpool_worker.ops.choice import OpsUnavailable
from text_loss import TEXT, loss, tokens_of

# A first difference between two orders of the same sums is allowed below this gap (as in bfloat16).
GAP = 0.25


@cache
def runner_of(quantization: str, ops: str = "cpu", blocks: int = 60) -> TorchRunner:
    return TorchRunner.load(
        SMOLLM2, quantization=quantization, ops=ops, num_blocks=blocks, max_model_len=512
    )


@cache
def text() -> list[int]:
    return tokens_of(SMOLLM2, TEXT)


def prompts() -> list[list[int]]:
    return [text()[start : start + 5 + start % 61] for start in range(0, 700, 77)]


@pytest.mark.parametrize("cut", [[1] * 10 + [30], [7] * 5 + [5], [16, 16, 8], [39, 1]], ids=str)
def test_chunks_change_no_bit_of_the_logits(cut: list[int]) -> None:
    runner, tokens = runner_of("int8"), text()[:40]
    whole = feed(runner, Fed(blocks=[0, 1, 2], tokens=tokens), [40])
    assert torch.equal(feed(runner, Fed(blocks=[5, 3, 4], tokens=tokens), cut), whole)


def test_mates_in_a_batch_change_no_bit_of_the_logits() -> None:
    runner = runner_of("int8")
    alone = [
        feed(runner, Fed(blocks=list(range(6)), tokens=prompt), [len(prompt)])[-1]
        for prompt in prompts()
    ]
    feds = [
        Fed(blocks=list(range(6 * index, 6 * index + 6)), tokens=prompt)
        for index, prompt in enumerate(prompts())
    ]
    together = runner.forward(batch_of([(fed, len(fed.tokens)) for fed in feds], 16))
    assert torch.equal(together, torch.stack(alone))


def test_tokens_after_a_prefix_that_another_computed_are_the_same_bits() -> None:
    runner, tokens = runner_of("int8"), text()[:40]
    whole = feed(runner, Fed(blocks=[0, 1, 2], tokens=tokens), [40])
    hit = Fed(blocks=[0, 1, 7], tokens=tokens, stored=32)
    assert torch.equal(feed(runner, hit, [8]), whole[32:])


@pytest.mark.parametrize("ops", ["cpu", "reference"])
def test_nan_in_blocks_of_nobody_changes_nothing(ops: str) -> None:
    runner, tokens = runner_of("int8", ops, 8), text()[:10]
    before = feed(runner, Fed(blocks=[3], tokens=tokens), [9, 1])
    runner.poison(range(8))
    assert torch.equal(feed(runner, Fed(blocks=[3], tokens=tokens), [9, 1]), before)
    runner.poison([3])
    assert feed(runner, Fed(blocks=[3], tokens=tokens, stored=9), [1]).isnan().all()


def test_greedy_answers_are_those_of_the_reference_or_part_at_a_small_gap() -> None:
    asked = prompts()[:4]
    ours = greedy(runner_of("int8"), asked, 8)
    reference = runner_of("int8", "reference", 8)
    for prompt, answer in zip(asked, ours, strict=True):
        whole = prompt + answer
        logits = feed(reference, Fed(blocks=list(range(8)), tokens=whole), [len(whole)])
        for row, token in zip(logits[len(prompt) - 1 : -1], answer, strict=True):
            if int(row.argmax()) != token:
                best = row.topk(2).values
                assert float(best[0] - best[1]) < GAP
                break


def test_a_text_is_as_likely_as_in_bfloat16() -> None:
    """The whole of bench/perplexity.py's text is within a percent; this is its beginning."""
    some = text()[:512]
    plain, int8 = (loss(runner_of(kind), some) for kind in ("none", "int8"))
    assert abs(int8 - plain) < 0.02


@pytest.mark.parametrize("ops", ["auto", "reference"])
def test_shapes_that_no_kernel_takes_run_on_the_reference(tmp_path: Path, ops: str) -> None:
    assert runner_of("int8").ops_name == "cpu"
    model = random_model(tiny_config(head_dim=20, hidden_size=60, num_attention_heads=6))
    folder = save(model, tmp_path)
    runner = TorchRunner.load(folder, quantization="int8", ops=ops, num_blocks=4, max_model_len=64)
    assert runner.ops_name == "reference"
    assert feed(runner, Fed(blocks=[0, 1], tokens=list(range(20))), [20]).isfinite().all()


def test_another_device_is_refused() -> None:
    with pytest.raises(OpsUnavailable, match="--quantization int8 does not run on cuda"):
        TorchRunner.load(SMOLLM2, quantization="int8", device="cuda", num_blocks=4)
