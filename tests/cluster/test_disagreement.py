"""Is there a pool that the API server takes and a file's reader refuses, or the other way round?

The suite tries a fixed handful; SPLITPOOL_SEARCH=5000 looks for new ones.
"""

import os
from typing import Any

from hypothesis import HealthCheck, event, given, note, settings
from hypothesis import strategies as st

from cluster.api import Api, Object
from cluster.pools import filled, plain, read_by_the_operator, refusal, taken_from_a_file
from splitpool_operator.declaration import fields
from unit.pool_files import CPU, DELETE, GPU, MIG, changed, problems
from unit.test_pool_bad_specs import MANAGED, SHARED

SEARCH = int(os.environ.get("SPLITPOOL_SEARCH", "0"))
I, B = "spec.pools.interactive", "spec.pools.batch"  # noqa: E741 - the two classes
EXCLUSIVE = changed(GPU, {"spec.sharing.mode": "Exclusive", "spec.accelerator.count": 4})
BASES: list[Object] = [
    GPU,
    CPU,
    changed(GPU, MIG),
    changed(GPU, SHARED),
    changed(GPU, MANAGED),
    changed(GPU, MIG | SHARED),
    EXCLUSIVE,
]
WHOLE = ["0", "1", "1Mi", "512Mi", "1Gi", "2Gi", "4Gi", "32Gi", "36Gi", "40Gi", "76Gi", "80Gi"]
ODD = ["1.5Gi", "0.5", "1.001Gi", "80G", "1e9", "12E3", "1Pi", "1023Ti", "0.001Ti", "4.0Gi", "00Mi"]
PROFILES = ["1g.10gb", "3g.40gb", "4g.40gb", "7g.80gb", "3g", "8g.80gb", DELETE]
TEXTS = ["", "a", "A-b", "-x", "two words", "ä", "x" * 64, "a\n", "a.b_c", DELETE]


def quantities() -> st.SearchStrategy[Any]:
    """Amounts at the borders of the rules, and amounts of every shape that the pattern has."""
    any_shape = st.from_regex(fields.QUANTITY_PATTERN.replace("$", r"\Z"))
    return st.one_of(st.sampled_from(WHOLE), st.sampled_from(WHOLE + ODD), any_shape)


def counts(*borders: int) -> st.SearchStrategy[Any]:
    """Numbers beside borders, and some that are none.

    1.0 is not among them: the API server stores it as 1, and a file's reader asks to write 1.
    """
    near = {border + step for border in borders for step in (-1, 0, 1)}
    return st.sampled_from([*sorted(near), "1", True, 1.5, DELETE])


def replica_bounds() -> st.SearchStrategy[Any]:
    """Bounds of autoscaling."""
    each = st.integers(0, 5)
    both = st.fixed_dictionaries({}, optional={"minReplicas": each, "maxReplicas": each})
    return st.one_of(both, st.just(DELETE))


FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "spec.topology": st.sampled_from(["Split", "Shared", "split", DELETE]),
    "spec.accelerator.type": st.sampled_from(["nvidia", "amd", "cpu", DELETE]),
    "spec.accelerator.memory": quantities(),
    "spec.accelerator.headroom": st.one_of(quantities(), st.just(DELETE)),
    "spec.accelerator.count": counts(1, 2, 4, 256),
    "spec.accelerator.cores": counts(1, 1024),
    "spec.sharing": st.sampled_from([{"mode": "MIG"}, {"mode": "Exclusive"}, {}, DELETE]),
    "spec.model.name": st.sampled_from(TEXTS),
    "spec.model.source": st.sampled_from(
        [
            "file:///m",
            "hf://a/b@c",
            "pvc://x",
            "pvc://x/",
            "oci://r/i:t",
            "python://p/f",
            "file://m",
        ]
    ),
    "spec.model.maxModelLen": counts(16, 16_777_216),
    "spec.autoscaling.mode": st.sampled_from(["Off", "Managed", "External", "off"]),
    "spec.autoscaling.interactive": replica_bounds(),
    "spec.autoscaling.batch": replica_bounds(),
    "spec.routing.forwardHeaders": st.lists(st.sampled_from(TEXTS[:-1]), max_size=2),
    "spec.podTemplate.env": st.lists(
        st.fixed_dictionaries({"name": st.sampled_from(["A", "LD_X", "NVIDIA_A", "1", "a.b", ""])}),
        max_size=2,
    ),
    "spec.podTemplate.hostPID": st.booleans(),
    "spec.podTemplate.resources": st.sampled_from(
        [{"limits": {"memory": "1Gi"}}, {"limits": {"nvidia.com/gpu": 1}}, {"requests": {"cpu": 1}}]
    ),
    **{
        f"{pool}.{name}": values
        for pool in (I, B)
        for name, values in {
            "vram": quantities(),
            "hostMemory": quantities(),
            "replicas": counts(0, 2, 3, 256),
            "maxBatch": counts(1, 8, 64, 496, 4096),
            "maxWaitMs": counts(0, 30, 300),
            "tokenBudget": counts(17, 24, 80, 2**20),
            "maxQueueTokens": counts(1, 2**40),
            "maxLengthRatio": st.sampled_from([1, 1.0, 0.999, 4, 1000.0, 1000.5, "4", DELETE]),
            "computePercent": counts(1, 50, 100),
            "migProfile": st.sampled_from(PROFILES),
            "objective": st.sampled_from(TEXTS),
            "stream": st.sampled_from([True, False, "true", 0]),
        }.items()
    },
}


@st.composite
def pools(draw: st.DrawFn) -> Object:
    """A healthy pool with some fields changed."""
    base = draw(st.sampled_from(BASES))
    names = draw(st.lists(st.sampled_from(sorted(FIELDS)), unique=True, max_size=5))
    changes = {name: draw(FIELDS[name]) for name in names}
    present = {k: v for k, v in changes.items() if v is not DELETE or _is_set(base, k)}
    note(f"changes: {present}")
    return changed(base, present)


def _is_set(value: Any, path: str) -> bool:
    for part in path.split("."):
        if part not in value:
            return False
        value = value[part]
    return True


@st.composite
def budgets(draw: st.DrawFn) -> Object:
    """A pool of healthy values whose quotas, replicas and bounds are near what fits its GPUs."""
    small = st.integers(0, 4)
    size = st.integers(1, 8).map(lambda eighths: f"{eighths / 8}Gi".replace(".0Gi", "Gi"))
    base = draw(st.sampled_from([GPU, changed(GPU, MIG), EXCLUSIVE]))
    changes = {
        "spec.accelerator.memory": draw(st.sampled_from(["1Gi", "2Gi", "1.5Gi"])),
        "spec.accelerator.headroom": draw(st.sampled_from(["0", "128Mi", "0.5Gi"])),
        "spec.accelerator.count": draw(st.integers(1, 4)),
        "spec.autoscaling.mode": draw(st.sampled_from(["Managed", "External", "Off"])),
        "spec.topology": draw(st.sampled_from(["Split", "Shared"])),
        f"{I}.replicas": (replicas := draw(small)),
        f"{B}.replicas": draw(st.one_of(small, st.just(replicas))),
        **{f"{pool}.vram": draw(size) for pool in (I, B)},
    }
    for name in draw(st.lists(st.sampled_from(["interactive", "batch"]), unique=True)):
        changes[f"spec.autoscaling.{name}"] = {
            "minReplicas": draw(small),
            "maxReplicas": draw(small),
        }
    note(f"changes: {changes}")
    return changed(base, changes)


SEARCHING = settings(
    max_examples=SEARCH or 150,
    derandomize=not SEARCH,
    database=None,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@SEARCHING
@given(pool=pools())
def test_both_take_the_same_pools_and_understand_them_alike(admin: Api, pool: Object) -> None:
    compare(admin, pool)


@SEARCHING
@given(pool=budgets())
def test_both_find_the_same_budgets_too_small(admin: Api, pool: Object) -> None:
    compare(admin, pool)


def compare(admin: Api, pool: Object) -> None:
    """Both take it and fill in the same defaults, or both refuse it."""
    why = refusal(admin, pool)
    event(f"refused for {len(why.problems)} reasons" if why else "taken")
    note(f"API server: {why}")
    note(f"file: {[problem.text for problem in problems(pool)]}")

    assert (why is None) == taken_from_a_file(pool)
    if why is None:
        assert plain(filled(admin, pool)["spec"]) == plain(read_by_the_operator(pool))
