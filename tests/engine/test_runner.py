"""What the runner promises the engine beyond logits: bounds, and memory that does not grow."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from llama_models import SMOLLM2, Fed, batch_of
from splitpool_worker.checkpoint.inspect import describe
from splitpool_worker.engine.batch import Batch
from splitpool_worker.engine.runner import TorchRunner


@pytest.fixture(scope="module")
def runner() -> TorchRunner:
    return TorchRunner.load(SMOLLM2, num_blocks=8, max_model_len=100)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("token", {"tokens": [1, 2, 49152]}),
        ("token", {"tokens": [1, -2, 3]}),
        ("position", {"positions": [98, 99, 100]}),
        ("slot", {"slots": [126, 127, 128]}),
        ("block", {"block_tables": [[8]]}),
    ],
)
def test_what_is_out_of_range_never_reaches_a_kernel(
    runner: TorchRunner, name: str, change: dict[str, Any]
) -> None:
    batch: Batch = batch_of([(Fed(blocks=[2], tokens=[1, 2, 3]), 3)], 16)
    with pytest.raises(IndexError, match=f"a {name} of this step is out of range"):
        runner.forward(replace(batch, **change))


def test_tokens_whose_block_was_copied_give_the_same_bits_as_computed_ones(
    runner: TorchRunner,
) -> None:
    tokens = list(range(100, 140))
    computed = Fed(blocks=[1, 2, 3], tokens=tokens)
    runner.forward(batch_of([(computed, 25)], 16))
    expected = runner.forward(batch_of([(computed, 15)], 16)).clone()
    runner.poison([5, 6])
    copied = Fed(blocks=[1, 5, 6], tokens=tokens, stored=25)
    batch = batch_of([(copied, 15)], 16)
    assert torch.equal(runner.forward(replace(batch, copies=[(2, 5)])), expected)


def test_the_parts_of_a_forward_pass_are_known_once(runner: TorchRunner) -> None:
    runner.forward(batch_of([(Fed(blocks=[2], tokens=[1, 2, 3]), 3)], 16))
    spent = runner.spent()

    assert spent.keys() == {"linears", "attention"}
    assert all(seconds > 0 for seconds in spent.values())
    assert set(runner.spent().values()) == {0.0}


def test_a_cache_needs_a_size_that_holds_a_block() -> None:
    with pytest.raises(ValueError, match="holds no block"):
        TorchRunner.load(SMOLLM2, kv_bytes=1000)
    with pytest.raises(ValueError, match="one of them"):
        TorchRunner.load(SMOLLM2)


def test_a_committed_cache_is_resident_before_a_step_touches_it() -> None:
    runner = TorchRunner.load(SMOLLM2, num_blocks=300)
    before = resident_bytes()
    runner.commit()
    assert resident_bytes() - before > 0.9 * runner.kv_bytes


HELPERS = """
import os, torch
from splitpool_worker.engine import openmp

def threads():
    return len(os.listdir("/proc/self/task"))

torch.set_num_threads(2)
alone = threads()
torch.ones(1 << 22).sum()
with_helper = threads()
openmp.release()
print(with_helper - alone, threads() - alone)
torch.ones(1 << 22).sum()
print(threads() - alone)
"""


def test_helpers_that_are_released_end_and_come_back_with_new_work() -> None:
    result = subprocess.run([sys.executable, "-c", HELPERS], capture_output=True, text=True)
    assert result.stdout == "1 0\n1\n", result.stderr


def resident_bytes() -> int:
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) * 1024


# The largest step a worker may take (512 tokens, 64 of them sampled, against long contexts) in a
# process of its own: how far its peak of resident memory rises over what it held before. All of
# the cache is written first, and small steps are taken, so that only this step's memory counts.
MEASURE = """
import sys
from pathlib import Path
sys.path.insert(0, "tests")
from llama_models import SMOLLM2, Fed, batch_of
from splitpool_worker.checkpoint import heap
from splitpool_worker.engine.runner import TorchRunner

ops, dtype, quantization = sys.argv[1:]
with heap.tidy():
    runner = TorchRunner.load(
        SMOLLM2, dtype=dtype, quantization=quantization, ops=ops, num_blocks=64, max_model_len=1024
    )
for layer in runner._kv.layers:
    layer.k.fill_(1), layer.v.fill_(1)
feds = [Fed(blocks=list(range(32)), tokens=[7] * 512, stored=500) for _ in range(64)]
runner.forward(batch_of([(fed, 1) for fed in feds[:2]], 16))

def resident(field):
    status = Path("/proc/self/status").read_text()
    return int(status.split(field + ":")[1].split()[0]) * 1024

Path("/proc/self/clear_refs").write_text("5")
before = resident("VmRSS")
long = Fed(blocks=list(range(64)), tokens=[7] * 1024, stored=575)
batch = batch_of([(fed, 1) for fed in feds[1:]] + [(long, 449)], 16)
assert len(batch.tokens) == 512 and len(batch.sample_rows) == 64
runner.forward(batch)
print(resident("VmHWM") - before)
"""


@pytest.mark.parametrize(
    ("ops", "dtype", "quantization"),
    [
        ("cpu", "bfloat16", "none"),
        ("cpu", "float32", "none"),
        ("reference", "bfloat16", "none"),
        ("cpu", "bfloat16", "int8"),
        ("reference", "bfloat16", "int8"),
    ],
)
def test_the_largest_step_stays_within_the_workspace_that_the_card_names(
    ops: str, dtype: str, quantization: str
) -> None:
    card = describe(
        SMOLLM2,
        dtype,
        max_model_len=1024,
        max_tokens=512,
        max_rows=64,
        ops=ops,
        quantization=quantization,
    )
    result = subprocess.run(
        [sys.executable, "-c", MEASURE, ops, dtype, quantization],
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stderr
    assert 0 < int(result.stdout) <= card.workspace_bytes
