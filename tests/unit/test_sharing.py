"""Every sharing mode gives a pod exactly what its row of the table says."""

import dataclasses
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from splitpool_operator.declaration import plain_yaml
from splitpool_operator.declaration.pool import ClassName, Spec
from splitpool_operator.planning.plan import kinds, role
from splitpool_operator.rendering.sharing import Unsupported, fence, scaled
from unit import golden
from unit.pool_files import CPU, GPU, MIG, pool

GIB = 1024**3
PERCENT = {"spec.pools.interactive.computePercent": 60, "spec.pools.batch.computePercent": 30}
MODES: dict[str, dict[str, Any]] = {
    "DRA": {},
    "KAI": {"spec.sharing.kaiQueue": "team-a"},
    "HAMi": PERCENT,
    "MPS": PERCENT,
    "TimeSlicing": {},
    "MIG": MIG | {"spec.pools.interactive.migProfile": "1g.10gb+me"},
    "Exclusive": {"spec.accelerator.count": 4},
}


def spec(mode: str, changes: dict[str, Any] | None = None) -> Spec:
    return pool(GPU, {"spec.sharing.mode": mode} | MODES[mode] | (changes or {})).spec


def written(of: Spec) -> dict[str, Any]:
    """The fences of a pool without what is empty."""
    result = {}
    for classes in kinds(of):
        made = dataclasses.asdict(fence(of, classes))
        result[role(classes)] = {key: value for key, value in made.items() if value}
    return result


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("topology", ["Split", "Shared"])
def test_a_mode_emits_what_the_table_says(mode: str, topology: str) -> None:
    changes: dict[str, Any] = {"spec.topology": topology}
    if topology == "Shared" and mode == "MIG":
        changes["spec.pools.batch.migProfile"] = "1g.10gb+me"
    golden.check(
        f"sharing-{mode.lower()}-{topology.lower()}.yaml",
        plain_yaml.dump(written(spec(mode, changes))),
    )


def test_a_cpu_worker_may_use_its_quota_and_its_host_memory() -> None:
    assert written(pool(CPU).spec) == {
        "interactive": {"requests": {"memory": "2Gi"}, "limits": {"memory": "2Gi"}},
        "batch": {"requests": {"memory": "3Gi"}, "limits": {"memory": "3Gi"}},
    }


def test_amd_knows_whole_gpus_and_claims_only() -> None:
    amd = {"spec.accelerator.type": "amd"}
    claim = fence(spec("DRA", amd), ("interactive",)).claim
    assert claim is not None
    assert claim["devices"]["requests"][0]["exactly"]["deviceClassName"] == "gpu.amd.com"
    assert fence(spec("Exclusive", amd), ("batch",)).limits == {"amd.com/gpu": 1}
    with pytest.raises(Unsupported, match="use DRA or Exclusive"):
        fence(spec("MPS", amd), ("batch",))


@pytest.mark.parametrize("mode", MODES)
def test_the_drivers_limit_is_the_quota_in_whole_mebibytes_rounded_down(mode: str) -> None:
    odd: dict[str, Any] = {"spec.pools.interactive.vram": "10000001k"}
    classes: tuple[ClassName, ...] = ("interactive",)
    limit = fence(spec(mode, odd), classes).env["NVIDIA_GPU_MEMORY_LIMIT"]
    assert int(limit) == 10_000_001_000 // 1024**2


@given(
    memory=st.integers(4 * GIB, 512 * GIB),
    parts=st.lists(st.integers(1, 100), min_size=1, max_size=20),
    headroom=st.integers(0, 3 * GIB),
)
def test_whatever_mix_a_scheduler_accepts_leaves_the_headroom_free(
    memory: int, parts: list[int], headroom: int
) -> None:
    usable = memory - headroom
    quotas = [max(1, usable * part // 100) for part in parts]
    taken, placed = 0, 0
    for quota in quotas:
        claim = scaled(quota, memory, headroom)
        if taken + claim <= memory:
            taken, placed = taken + claim, placed + quota
    assert placed + headroom <= memory


def test_a_whole_gpus_quota_claims_the_whole_gpu() -> None:
    assert scaled(76 * GIB, 80 * GIB, 4 * GIB) == 80 * GIB
