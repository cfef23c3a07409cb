"""Steps that are replayed compute what the operations compute one by one."""

import random
from dataclasses import replace
from functools import cache

import pytest
import torch

from fakes.fake_runner import best_of
from llama_models import SMOLLM2, Fed, batch_of
from splitpool_worker.checkpoint.footprint import REPLAYED_ROWS
from splitpool_worker.engine.runner import TorchRunner
from splitpool_worker.ops.cpu import CpuOps
from splitpool_worker.ops.tape import Results, Scratch, Sizes

BLOCK, SEQUENCES = 16, 65


@cache
def runner_of(quantization: str, dtype: str) -> TorchRunner:
    return TorchRunner.load(
        SMOLLM2,
        quantization=quantization,
        dtype=dtype,
        ops="cpu",
        num_blocks=3 * SEQUENCES,
        max_model_len=3 * BLOCK,
    )


def prompts(count: int, seed: int) -> list[Fed]:
    """Of 1 to 40 tokens, each with blocks of its own."""
    rng = random.Random(seed)
    blocks = rng.sample(range(3 * SEQUENCES), 3 * count)
    return [
        Fed(
            blocks=blocks[3 * i : 3 * i + 3],
            tokens=[rng.randrange(49152) for _ in range(rng.randint(1, 40))],
        )
        for i in range(count)
    ]


def one_by_one(runner: TorchRunner) -> TorchRunner:
    """The same model and cache, without replaying."""
    plain = object.__new__(TorchRunner)
    plain.__dict__.update(runner.__dict__, _replaying=None)
    return plain


@pytest.mark.parametrize("sequences", [1, 2, 7, SEQUENCES])
@pytest.mark.parametrize(
    ("quantization", "dtype"),
    [("none", "bfloat16"), ("int8", "bfloat16"), ("none", "float32"), ("int8", "float32")],
)
def test_a_replayed_step_gives_the_same_bits(quantization: str, dtype: str, sequences: int) -> None:
    runner = runner_of(quantization, dtype)
    for seed in range(2):
        feds = prompts(sequences, seed)
        first = [len(fed.tokens) for fed in feds]
        for counts in (first, [1] * sequences, [1 + 6 * (i % 2) for i in range(sequences)]):
            if counts is not first:
                for fed, count in zip(feds, counts, strict=True):
                    fed.tokens += range(seed, seed + count)
            batch = batch_of(list(zip(feds, counts, strict=True)), BLOCK)
            batch = replace(batch, sample_rows=batch.sample_rows[::2])
            plain = one_by_one(runner)
            expected = plain.forward(batch)
            assert torch.equal(runner.forward(batch), expected)
            assert runner.best() == plain.best() == best_of(expected)


def test_a_step_of_too_many_rows_is_not_replayed() -> None:
    runner = runner_of("none", "bfloat16")
    feds = [replace(fed, tokens=[7] * 40) for fed in prompts(REPLAYED_ROWS // 40 + 1, 0)]
    batch = batch_of([(fed, 40) for fed in feds], BLOCK)

    assert len(batch.tokens) > REPLAYED_ROWS
    assert torch.equal(runner.forward(batch), one_by_one(runner).forward(batch))


def test_rows_that_are_not_sampled_are_computed_all_the_same() -> None:
    runner = runner_of("none", "bfloat16")
    batch = batch_of([(Fed(blocks=[i], tokens=[i + 5]), 1) for i in range(3)], BLOCK)
    every = runner.forward(batch).clone()

    assert torch.equal(runner.forward(replace(batch, sample_rows=[2])), every[2:])


def test_a_step_that_is_refused_leaves_nothing_behind() -> None:
    runner = runner_of("none", "bfloat16")
    batch = batch_of([(Fed(blocks=[4], tokens=[9]), 1)], BLOCK)
    expected = runner.forward(batch).clone()
    with pytest.raises(IndexError, match="a block of this step is out of range"):
        runner.forward(replace(batch, block_tables=[[4, 10_000]]))

    assert torch.equal(runner.forward(batch), expected)


def test_the_scratch_gives_no_memory_that_is_held() -> None:
    scratch = Scratch(8)
    held = [scratch.take(rows, 16, torch.float32) for rows in (8, 3, 5)]
    other = scratch.take(8, 16, torch.bfloat16)
    for value, tensor in enumerate([*held, other]):
        tensor.fill_(value)
    assert [float(tensor.min()) for tensor in [*held, other]] == [0, 1, 2, 3]

    place = held.pop().data_ptr()
    assert scratch.take(1, 16, torch.float32).data_ptr() == place


def test_an_operation_that_depends_on_more_than_a_size_cannot_be_recorded() -> None:
    ops = CpuOps(1)

    def doubled(sizes: Sizes) -> Results:
        return (ops.select(torch.zeros(64, 16), torch.arange(2 * sizes.rows)),)

    with pytest.raises(ValueError, match="more than one size"):
        ops.replay(doubled, torch.float32, Scratch(64))
