"""What a worker's series say of its steps."""

from prometheus_client.parser import text_string_to_metric_families

from splitpool_worker.api.metrics import ClassMemory, Identity, Metrics
from splitpool_worker.fences.verdict import Enforcement, Fence
from splitpool_worker.schedule.sequence import LatencyClass
from splitpool_worker.schedule.stats import ClassStep, StepStats

WEIGHTS = 1 << 30


def metrics(bytes_per_second: float) -> Metrics:
    """Of a worker that serves interactive only."""
    memory = ClassMemory(
        quota=2 * WEIGHTS,
        context=0,
        weights=WEIGHTS,
        workspace=0,
        kv=WEIGHTS,
        kv_bytes_per_token=1024,
    )
    return Metrics(
        Identity(pool="assistant", namespace="default", model="m"),
        {LatencyClass.INTERACTIVE: memory},
        fence=Fence(enforcement=Enforcement.COOPERATIVE, seen="nothing"),
        block_size=16,
        bytes_per_second=bytes_per_second,
    )


def decode(seconds: float) -> StepStats:
    """A step of one sequence, which reads the weights and nothing else worth counting."""
    step = ClassStep(
        decode_tokens=1,
        draft_tokens=0,
        accepted_tokens=0,
        prefill_tokens=0,
        budget=64,
        waiting=0,
        running=1,
        preemptions=0,
        utilisation=1.0,
        kv_used_tokens=0,
        prefix_query_tokens=0,
        prefix_hit_tokens=0,
    )
    classes = {LatencyClass.INTERACTIVE: step}
    parts = {"schedule": 0.0, "forward": seconds, "sample": 0.0, "deliver": 0.0}
    return StepStats(step=1, started=0.0, seconds=seconds, parts=parts, classes=classes)


def bandwidth_used(measured: Metrics) -> float:
    """The gauge, as Prometheus reads it."""
    families = text_string_to_metric_families(measured.render({}, 0).decode())
    samples = (sample for family in families for sample in family.samples)
    return next(s.value for s in samples if s.name == "splitpool_worker_step_mbu_ratio")


def test_a_step_is_held_against_the_memorys_speed() -> None:
    measured = metrics(bytes_per_second=2 * WEIGHTS)
    measured.on_step(decode(2.0))
    assert bandwidth_used(measured) == 0.25


def test_no_step_reads_faster_than_memory() -> None:
    disturbed = metrics(bytes_per_second=WEIGHTS / 3)
    disturbed.on_step(decode(1.0))
    assert bandwidth_used(disturbed) == 1.0
    disturbed.on_step(decode(2.0))
    assert bandwidth_used(disturbed) == 0.5
