"""A quota divides into context, weights, workspace and KV, and never gives out more than it has."""

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from splitpool_worker.schedule.sequence import LatencyClass
from splitpool_worker.vram import QuotaTooSmall, VramParts, size_kv

INTERACTIVE, BATCH = LatencyClass.INTERACTIVE, LatencyClass.BATCH


@dataclass(frozen=True, kw_only=True)
class Model:
    context_bytes: int = 10
    weights_bytes: int = 1000
    workspace_bytes: int = 90
    kv_bytes_per_token: int = 2
    max_model_len: int = 100
    block_size: int = 16


def test_a_split_worker_pays_for_everything_out_of_its_own_quota() -> None:
    parts = size_kv(Model(), {BATCH: 1100 + 32 * 10 + 31})[BATCH]

    assert (parts.context, parts.weights, parts.workspace) == (10, 1000, 90)
    assert (parts.kv_blocks, parts.kv) == (10, 320)


def test_a_shared_worker_charges_interactive_and_gives_batch_its_whole_quota_as_kv() -> None:
    parts = size_kv(Model(), {BATCH: 320, INTERACTIVE: 1100 + 224})

    assert parts[INTERACTIVE].kv_blocks == 7
    assert parts[BATCH].kv_blocks == 10
    assert (parts[BATCH].weights, parts[BATCH].workspace) == (0, 0)


@pytest.mark.parametrize("quota", [0, 500, 1100, 1100 + 7 * 32 - 1])
def test_a_quota_that_cannot_hold_one_sequence_is_refused_with_all_numbers(quota: int) -> None:
    with pytest.raises(QuotaTooSmall) as refusal:
        size_kv(Model(), {INTERACTIVE: quota})

    assert refusal.value.needed == 1100 + 7 * 32
    for number in (quota, 10, 1000, 90, 100, 224, 1324):
        assert str(number) in str(refusal.value)
    assert "pools.interactive.vram" in str(refusal.value)


def test_the_quota_that_the_refusal_names_is_enough() -> None:
    assert size_kv(Model(), {INTERACTIVE: 1324})[INTERACTIVE].kv_blocks == 7


@given(
    model=st.builds(
        Model,
        context_bytes=st.integers(0, 10**9),
        weights_bytes=st.integers(0, 10**12),
        workspace_bytes=st.integers(0, 10**9),
        kv_bytes_per_token=st.integers(1, 10**6),
        max_model_len=st.integers(1, 10**6),
        block_size=st.integers(1, 256),
    ),
    interactive=st.integers(0, 10**13),
    batch=st.integers(0, 10**13),
)
def test_parts_never_exceed_a_quota_and_one_sequence_always_fits(
    model: Model, interactive: int, batch: int
) -> None:
    quotas = {INTERACTIVE: interactive, BATCH: batch}
    parts, refusal = sized(model, quotas)
    assert refusal is None or refusal.needed > refusal.quota == quotas[refusal.cls]
    for of_class in parts.values():
        used = of_class.context + of_class.weights + of_class.workspace + of_class.kv
        assert used <= of_class.quota
        assert of_class.quota - used < model.block_size * model.kv_bytes_per_token
        assert of_class.kv_blocks * model.block_size >= model.max_model_len


def sized(
    model: Model, quotas: dict[LatencyClass, int]
) -> tuple[dict[LatencyClass, VramParts], QuotaTooSmall | None]:
    try:
        return size_kv(model, quotas), None
    except QuotaTooSmall as refusal:
        return {}, refusal
