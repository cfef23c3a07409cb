"""No accepted plan ever exceeds a GPU, and no plan that exists is refused."""

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from splitpool_operator.declaration.pool import InferencePool
from splitpool_operator.declaration.problems import PoolFileError
from splitpool_operator.planning import mig, packing, quota
from splitpool_operator.planning.quota import DoesNotFit, ModelCard, QuotaTooSmall
from splitpool_quantity.quantity import show
from unit.pool_files import CPU, GPU, MIG, changed, pool

GIB = 1024**3
MIB = 1024**2
CARD = ModelCard(
    weights=257 * MIB,
    workspace=30 * MIB,
    context=0,
    kv_per_token=23_040,
    max_model_len=2048,
    block_size=16,
)


def fits_somehow(gpus: int, interactive: int, batch: int, most_beside: list[int]) -> bool:
    """Whether any placement exists, by trying every number of interactive workers on every GPU."""
    return any(
        sum(xs) == interactive and sum(most_beside[x] for x in xs) >= batch
        for xs in product(range(len(most_beside)), repeat=gpus)
    )


MOST_BESIDE = st.integers(1, 5).flatmap(
    lambda size: st.lists(st.integers(0, 4), min_size=size, max_size=size)
).map(lambda counts: sorted(counts, reverse=True))  # fmt: skip


@settings(deadline=None)
@given(st.integers(1, 4), st.integers(0, 8), st.integers(0, 8), MOST_BESIDE)
def test_packing_finds_a_placement_exactly_where_one_exists(
    gpus: int, interactive: int, batch: int, most_beside: list[int]
) -> None:
    loads = packing.pack(gpus=gpus, interactive=interactive, batch=batch, most_beside=most_beside)

    assert (loads is not None) == fits_somehow(gpus, interactive, batch, most_beside)
    if loads is not None:
        assert len(loads) == gpus
        assert sum(load.interactive for load in loads) == interactive
        assert sum(load.batch for load in loads) == batch
        assert all(load.batch <= most_beside[load.interactive] for load in loads)


def declared(
    memory: int, headroom: int, count: int, sizes: tuple[int, int], replicas: tuple[int, int]
) -> InferencePool | None:
    """A pool of whole MiB, or None where its declaration is refused already."""
    changes = {
        "spec.accelerator": {
            "type": "nvidia",
            "memory": show(memory * MIB),
            "headroom": show(headroom * MIB),
            "count": count,
        },
        "spec.pools": {
            "interactive": {"vram": show(sizes[0] * MIB), "replicas": replicas[0]},
            "batch": {"vram": show(sizes[1] * MIB), "replicas": replicas[1]},
        },
    }
    try:
        return pool(GPU, changes)
    except PoolFileError:
        return None


@settings(max_examples=300, deadline=None)
@given(
    memory=st.integers(1, 100),
    headroom=st.integers(0, 20),
    count=st.integers(1, 5),
    sizes=st.tuples(st.integers(1, 60), st.integers(1, 60)),
    replicas=st.tuples(st.integers(0, 8), st.integers(0, 8)),
)
def test_no_accepted_placement_exceeds_a_gpu(
    memory: int, headroom: int, count: int, sizes: tuple[int, int], replicas: tuple[int, int]
) -> None:
    spec = declared(memory, headroom, count, sizes, replicas)
    if spec is None:
        return
    try:
        loads = quota.place(spec.spec, *replicas)
    except DoesNotFit:
        return
    assert sum(load.interactive for load in loads) == replicas[0]
    assert sum(load.batch for load in loads) == replicas[1]
    for load in loads:
        used = load.interactive * sizes[0] + load.batch * sizes[1]
        assert used + headroom <= memory


def test_quotas_whose_sum_fits_but_whose_pieces_do_not_are_refused_with_the_numbers() -> None:
    spec = pool(
        GPU,
        {
            "spec.pools.interactive": {"vram": "40Gi", "replicas": 3},
            "spec.pools.batch": {"vram": "30Gi", "replicas": 1},
        },
    ).spec
    with pytest.raises(DoesNotFit) as refused:
        quota.place(spec, 3, 1)
    said = str(refused.value)
    for part in ("3 x interactive (40Gi)", "1 x batch (30Gi)", "2 x 76Gi", "0 + 2, 1 + 1"):
        assert part in said
    assert "at most 2 interactive fit" in said


def test_what_greedy_placement_misses_is_found() -> None:
    spec = pool(
        GPU,
        {
            "spec.accelerator": {"memory": "12Gi", "headroom": "0", "count": 2},
            "spec.pools.interactive": {"vram": "4Gi", "replicas": 3},
            "spec.pools.batch": {"vram": "6Gi", "replicas": 2},
        },
    ).spec
    loads = quota.place(spec, 3, 2)
    assert sorted((load.interactive, load.batch) for load in loads) == [(0, 2), (3, 0)]


def test_workers_are_spread_over_the_gpus_where_there_is_room() -> None:
    loads = quota.place(pool(GPU).spec, 2, 2)
    assert [(load.interactive, load.batch) for load in loads] == [(1, 1), (1, 1)]


def test_exclusive_gives_every_worker_a_gpu_of_its_own() -> None:
    changes = {"spec.sharing.mode": "Exclusive", "spec.accelerator.count": 4}
    loads = quota.place(pool(GPU, changes).spec, 2, 2)
    assert [load.interactive + load.batch for load in loads] == [1, 1, 1, 1]


def test_shared_workers_carry_both_quotas() -> None:
    changes = {"spec.topology": "Shared", "spec.pools.interactive.vram": "20Gi"}
    spec = pool(GPU, changes).spec
    assert [load.interactive for load in quota.place(spec, 2, 2)] == [1, 1]
    with pytest.raises(DoesNotFit, match="60Gi"):
        quota.place(spec, 3, 3)


def test_autoscaling_is_held_to_a_placement_for_every_bound() -> None:
    spec = pool(
        GPU,
        {
            "spec.autoscaling.mode": "Managed",
            "spec.autoscaling.interactive": {"minReplicas": 1, "maxReplicas": 4},
            "spec.autoscaling.batch": {"minReplicas": 0, "maxReplicas": 2},
        },
    ).spec
    quota.check_scaling(spec)
    odd = pool(
        GPU,
        {
            "spec.pools.interactive.vram": "50Gi",
            "spec.pools.interactive.replicas": 1,
            "spec.pools.batch.vram": "40Gi",
            "spec.pools.batch.replicas": 1,
            "spec.autoscaling.mode": "Managed",
            "spec.autoscaling.batch": {"maxReplicas": 2},
        },
    ).spec
    with pytest.raises(DoesNotFit, match="1 x interactive"):
        quota.check_scaling(odd)


@pytest.mark.parametrize(
    ("memory", "profile", "compute", "slices"),
    [
        (80, "1g.10gb", 1, 1),
        (80, "1g.20gb", 1, 2),
        (80, "2g.20gb", 2, 2),
        (80, "3g.40gb", 3, 4),
        (80, "4g.40gb", 4, 4),
        (80, "7g.80gb", 7, 8),
        (139, "3g.71gb", 3, 4),
        (139, "1g.18gb", 1, 1),
        (139, "1g.35gb", 1, 2),
        (40, "1g.5gb", 1, 1),
        (24, "1g.6gb", 1, 2),
        (24, "2g.12gb", 2, 4),
        (178, "2g.45gb", 2, 2),
        (95, "4g.96gb", 4, 8),
    ],
)
def test_mig_profiles_take_the_slices_of_their_gpu(
    memory: int, profile: str, compute: int, slices: int
) -> None:
    assert mig.slice_of(profile, memory * GIB) == mig.Slice(compute=compute, memory=slices)


@pytest.mark.parametrize(
    ("memory", "profile"), [(139, "3g.40gb"), (80, "7g.40gb"), (80, "5g.60gb"), (80, "4g.20gb")]
)
def test_a_mig_profile_of_another_gpu_is_refused(memory: int, profile: str) -> None:
    with pytest.raises(mig.NoSuchProfile, match="nvidia-smi"):
        mig.slice_of(profile, memory * GIB)


@pytest.mark.parametrize(
    ("interactive", "batch", "counts", "exists"),
    [
        ("3g.40gb", "4g.40gb", (1, 1), True),
        ("3g.40gb", "3g.40gb", (1, 1), True),
        ("4g.40gb", "4g.40gb", (1, 1), False),
        ("1g.10gb", "3g.40gb", (1, 2), False),
        ("1g.20gb", "3g.40gb", (2, 1), True),
        ("2g.20gb", "3g.40gb", (2, 1), True),
        ("1g.10gb", "2g.20gb", (1, 3), True),
        ("7g.80gb", "1g.10gb", (1, 1), False),
    ],
)
def test_the_combination_of_mig_profiles_must_exist_on_one_gpu(
    interactive: str, batch: str, counts: tuple[int, int], exists: bool
) -> None:
    raw = changed(GPU, MIG)
    raw["spec"]["pools"] = {
        "interactive": {"vram": "8Gi", "migProfile": interactive, "replicas": counts[0]},
        "batch": {"vram": "8Gi", "migProfile": batch, "replicas": counts[1]},
    }
    raw["spec"]["accelerator"]["count"] = 2
    spec = pool(raw).spec
    one = packing.pack(
        gpus=1,
        interactive=counts[0],
        batch=counts[1],
        most_beside=quota.most_beside(spec),
    )
    assert (one is not None) == exists


@settings(deadline=None)
@given(st.integers(1, 4 * GIB))
def test_a_quota_is_its_parts_and_less_than_a_block_is_spare(size: int) -> None:
    room = quota.room(size, CARD, pays_weights=True)
    if room.tokens:
        assert room.context + room.weights + room.workspace + room.kv + room.spare == size
        assert 0 <= room.spare < CARD.block_size * CARD.kv_per_token
    assert room.sequences == room.tokens // CARD.max_model_len


def test_a_class_beside_another_pays_for_its_kv_alone() -> None:
    room = quota.room(GIB, CARD, pays_weights=False)
    assert (room.weights, room.workspace) == (0, 0)
    assert room.tokens == GIB // (16 * CARD.kv_per_token) * 16


def test_a_quota_without_room_for_one_sequence_is_refused_with_a_quota_that_has() -> None:
    room = quota.room(300 * MIB, CARD, pays_weights=True)
    with pytest.raises(QuotaTooSmall) as refused:
        quota.check_room("interactive", room, CARD)
    said = str(refused.value)
    for part in (
        "spec.pools.interactive.vram: 300Mi",
        "257Mi",
        "30Mi",
        "45Mi",
        "raise vram to 332Mi",
    ):
        assert part in said
    quota.check_room("interactive", quota.room(332 * MIB, CARD, pays_weights=True), CARD)
    with pytest.raises(QuotaTooSmall):
        quota.check_room("interactive", quota.room(331 * MIB, CARD, pays_weights=True), CARD)


def test_a_cpu_pool_hands_out_all_of_its_memory() -> None:
    spec = pool(CPU, {"spec.accelerator.memory": "3Gi"}).spec
    assert quota.place(spec, 1, 1)[0] == packing.Load(interactive=1, batch=1)
