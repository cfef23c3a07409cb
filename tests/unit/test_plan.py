"""A plan says exactly what each worker is started with."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from splitpool_operator.declaration.problems import PoolFileError
from splitpool_operator.declaration.reading import read_file
from splitpool_operator.planning.plan import Plan, Step, plan, shares
from splitpool_operator.planning.quota import DoesNotFit
from unit import golden
from unit.pool_files import CPU, GPU, pool


def written(plan: Plan) -> str:
    """One argument a line, a flag with its value, so that a change reads well in a diff."""
    lines = []
    for worker in plan.workers:
        lines += [f"# {worker.name} gpu={worker.gpu} drain={worker.drain_seconds}s"]
        lines += [f"{key}={value}" for key, value in worker.env.items()]
        lines += " ".join(worker.argv).replace(" --", "\n--").splitlines()
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("name", ["smollm2", "smollm2-shared", "gpu-2x-dra"])
def test_the_workers_of_an_example_are_started_as_recorded(name: str) -> None:
    (only,) = read_file(golden.ROOT / "examples" / f"{name}.yaml")
    golden.check(f"plan-{name}.txt", written(plan(only, cores=4)))


def test_two_cores_are_shared_out_one_each_without_spinning() -> None:
    interactive, batch = plan(pool(CPU), cores=2).workers
    assert interactive.env == {"OMP_NUM_THREADS": "1"}
    assert batch.env == {"OMP_NUM_THREADS": "1"}


def test_a_worker_with_several_cores_spins_boundedly() -> None:
    interactive, batch = plan(pool(CPU), cores=5).workers
    assert interactive.env == {"OMP_NUM_THREADS": "3", "GOMP_SPINCOUNT": "2000"}
    assert batch.env == {"OMP_NUM_THREADS": "2", "GOMP_SPINCOUNT": "2000"}


def test_declared_cores_win_over_the_machines() -> None:
    interactive, _ = plan(pool(CPU, {"spec.accelerator.cores": 8}), cores=2).workers
    assert interactive.env["OMP_NUM_THREADS"] == "4"


@settings(deadline=None)
@given(st.integers(1, 256), st.integers(1, 64))
def test_every_worker_gets_a_core_and_no_core_is_lost(cores: int, workers: int) -> None:
    counts = shares(cores, workers)
    assert len(counts) == workers
    assert min(counts) >= 1
    assert sum(counts) == max(cores, workers) or max(counts) == 1
    assert max(counts) - min(counts) <= 1


def test_a_shared_worker_serves_both_classes_with_both_quotas() -> None:
    shared = {"spec.topology": "Shared", "spec.pools.batch.drainSeconds": 200}
    (worker,) = plan(pool(CPU, shared), cores=2).workers
    assert worker.name == "assistant-shared-0"
    assert worker.classes == ("interactive", "batch")
    assert dict(worker.quotas) == {"interactive": 1024**3, "batch": 2 * 1024**3}
    assert worker.vram == 3 * 1024**3
    assert worker.largest_step == Step(tokens=256 + 512, rows=8 + 64)
    assert worker.drain_seconds == 200
    assert worker.argv.count("--class") == 2


def test_flags_of_the_process_come_before_those_of_its_classes() -> None:
    for worker in plan(pool(CPU), cores=2).workers:
        first = worker.argv.index("--class")
        assert worker.argv.index("--drain-seconds") < first
        assert set(worker.argv[first::1]).isdisjoint({"--pool", "--threads", "--resume-mode"})


def test_every_flag_that_a_field_decides_follows_the_field() -> None:
    changes = {
        "spec.model.maxModelLen": 512,
        "spec.model.dtype": "float32",
        "spec.resume": {"mode": "Off", "windowSeconds": 5, "bufferBytes": "1Mi"},
        "spec.pools.interactive": {
            "vram": "1Gi",
            "maxBatch": 3,
            "maxWaitMs": 7,
            "tokenBudget": 99,
            "prefillChunk": 11,
            "maxLengthRatio": 2.5,
            "prefixCache": False,
            "stream": False,
            "maxStepMs": 45,
            "drainSeconds": 9,
        },
    }
    argv = " ".join(plan(pool(CPU, changes), cores=2).workers[0].argv)
    for flag in (
        "--max-model-len 512",
        "--dtype float32",
        "--resume-mode Off",
        "--resume-window-seconds 5",
        "--resume-buffer-bytes 1048576",
        "--max-step-ms 45",
        "--drain-seconds 9",
        "--class interactive --vram-bytes 1073741824",
        "--max-batch 3 --max-wait-ms 7 --token-budget 99 --prefill-chunk 11",
        "--max-length-ratio 2.5 --no-prefix-cache --no-stream",
    ):
        assert flag in argv


def test_gpus_of_a_second_pool_follow_those_of_the_first() -> None:
    workers = plan(pool(GPU), cores=8, first_gpu=2).workers
    assert [worker.gpu for worker in workers] == [2, 3, 2, 3]
    assert [worker.env["CUDA_VISIBLE_DEVICES"] for worker in workers] == ["2", "3", "2", "3"]
    assert "--device cuda" in " ".join(workers[0].argv)


@settings(deadline=None)
@given(
    st.sampled_from(["Split", "Shared"]),
    st.integers(1, 4),
    st.integers(0, 5),
    st.integers(0, 5),
    st.integers(1, 40),
    st.integers(1, 40),
)
def test_no_accepted_plan_ever_exceeds_a_gpus_memory(
    topology: str, count: int, interactive: int, batch: int, one: int, other: int
) -> None:
    changes = {
        "spec.topology": topology,
        "spec.accelerator": {"memory": "48Gi", "count": count},
        "spec.pools": {
            "interactive": {"vram": f"{one}Gi", "replicas": interactive},
            "batch": {"vram": f"{other}Gi", "replicas": batch},
        },
    }
    try:
        made = plan(pool(GPU, changes), cores=4)
    except (PoolFileError, DoesNotFit):
        return
    for gpu in range(count):
        used = sum(worker.vram for worker in made.workers if worker.gpu == gpu)
        assert used + made.headroom <= 48 * 1024**3
    classes = [name for worker in made.workers for name in worker.classes]
    assert classes.count("interactive") == interactive
    assert classes.count("batch") == batch
