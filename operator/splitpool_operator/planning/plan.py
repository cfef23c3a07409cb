"""Which workers does a pool consist of: arguments, environment, quota and GPU of each?

Pure: the same plan runs as child processes of one machine and as pods of a cluster.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from splitpool_operator.declaration import defaults
from splitpool_operator.declaration.pool import CLASSES, ClassName, InferencePool, Spec, class_spec
from splitpool_operator.planning import quota
from splitpool_operator.planning.packing import Load

# Bounded spinning: threads that have their cores wait by spinning this often before they sleep.
_SPIN_COUNT = "2000"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """The largest iteration of a worker: its tokens, and how many of its rows are sampled."""

    tokens: int
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerPlan:
    """One worker process."""

    name: str
    classes: tuple[ClassName, ...]
    gpu: int | None
    quotas: Mapping[ClassName, int]
    host_memory: int
    largest_step: Step
    argv: tuple[str, ...]
    env: Mapping[str, str]
    drain_seconds: int

    @property
    def vram(self) -> int:
        """The quota of the whole process."""
        return sum(self.quotas.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The workers of one pool, each placed on a GPU so that the headroom stays free."""

    pool: InferencePool
    workers: tuple[WorkerPlan, ...]
    headroom: int
    first_gpu: int


def plan(pool: InferencePool, *, cores: int, first_gpu: int = 0) -> Plan:
    """The workers of a pool. Raises quota.DoesNotFit with the numbers.

    cores: what is shared out where spec.accelerator.cores says nothing; every worker gets one.
    first_gpu: index of the pool's first GPU on this machine.
    """
    spec = pool.spec
    loads = quota.place(spec, spec.pools.interactive.replicas, spec.pools.batch.replicas)
    quota.check_scaling(spec)
    seats = list(_seats(spec, loads))
    threads = shares(spec.accelerator.cores or cores, len(seats))
    workers = tuple(
        worker(pool, classes, index=index, gpu=first_gpu + gpu, threads=count)
        for (classes, index, gpu), count in zip(seats, threads, strict=True)
    )
    headroom = defaults.headroom(spec)
    return Plan(pool=pool, workers=workers, headroom=headroom, first_gpu=first_gpu)


def shares(cores: int, workers: int) -> list[int]:
    """Cores of each worker: even, the first ones get what is left over, nobody less than one."""
    each, left = divmod(cores, workers) if workers else (0, 0)
    return [max(1, each + (index < left)) for index in range(workers)]


def kinds(spec: Spec) -> tuple[tuple[ClassName, ...], ...]:
    """The classes of each kind of worker: one kind for both classes, or one a class."""
    return (CLASSES,) if spec.topology == "Shared" else (("interactive",), ("batch",))


def role(classes: tuple[ClassName, ...]) -> str:
    """What a kind of worker is called: interactive, batch or shared."""
    return classes[0] if len(classes) == 1 else "shared"


def _seats(spec: Spec, loads: list[Load]) -> Iterator[tuple[tuple[ClassName, ...], int, int]]:
    """Classes, index within its Deployment, and GPU of every worker; interactive ones first."""
    first = kinds(spec)[0]
    at = [gpu for gpu, load in enumerate(loads) for _ in range(load.interactive)]
    yield from ((first, index, gpu) for index, gpu in enumerate(at))
    at = [gpu for gpu, load in enumerate(loads) for _ in range(load.batch)]
    yield from ((("batch",), index, gpu) for index, gpu in enumerate(at))


def worker(
    pool: InferencePool,
    classes: tuple[ClassName, ...],
    *,
    index: int = 0,
    gpu: int = 0,
    threads: int = 1,
) -> WorkerPlan:
    """One worker of a kind, also of one that has no replicas now."""
    spec = pool.spec
    name = f"{pool.metadata.name}-{role(classes)}-{index}"
    parts = [class_spec(spec, each) for each in classes]
    drain = max(part.drain_seconds for part in parts)
    on_cpu = spec.accelerator.type == "cpu"
    return WorkerPlan(
        name=name,
        classes=classes,
        gpu=None if on_cpu else gpu,
        quotas=MappingProxyType({each: class_spec(spec, each).vram for each in classes}),
        host_memory=_host_memory(spec, classes),
        largest_step=Step(
            tokens=sum(defaults.token_budget(spec, each) for each in classes),
            rows=max(sum(part.max_batch for part in parts), 1 + spec.model.draft_tokens),
        ),
        argv=(*_common(pool, name, threads, drain, classes), *_class_flags(spec, classes)),
        env=MappingProxyType(_env(spec, threads, gpu)),
        drain_seconds=drain,
    )


def _host_memory(spec: Spec, classes: tuple[ClassName, ...]) -> int:
    return max(class_spec(spec, each).host_memory for each in classes)


def _common(
    pool: InferencePool, name: str, threads: int, drain: int, classes: tuple[ClassName, ...]
) -> tuple[str, ...]:
    spec = pool.spec
    length = spec.model.max_model_len
    return (
        *("--pool", pool.metadata.name, "--namespace", pool.metadata.namespace, "--name", name),
        *("--model-name", spec.model.name, "--model", spec.model.source),
        *("--dtype", spec.model.dtype, "--quantization", spec.model.quantization),
        *("--draft-tokens", str(spec.model.draft_tokens)),
        *(("--max-model-len", str(length)) if length is not None else ()),
        *("--device", "cpu" if spec.accelerator.type == "cpu" else "cuda"),
        *("--threads", str(threads)),
        *("--max-step-ms", str(defaults.max_step_ms(spec, classes[0]))),
        *("--host-memory-bytes", str(_host_memory(spec, classes))),
        *("--resume-mode", spec.resume.mode),
        *("--resume-window-seconds", str(spec.resume.window_seconds)),
        *("--resume-buffer-bytes", str(spec.resume.buffer_bytes)),
        *("--drain-seconds", str(drain)),
    )


def _class_flags(spec: Spec, classes: tuple[ClassName, ...]) -> Iterator[str]:
    for name in classes:
        part = class_spec(spec, name)
        yield from ("--class", name, "--vram-bytes", str(part.vram))
        yield from ("--max-batch", str(part.max_batch), "--max-wait-ms", str(part.max_wait_ms))
        yield from ("--token-budget", str(defaults.token_budget(spec, name)))
        yield from ("--prefill-chunk", str(defaults.prefill_chunk(spec, name)))
        yield from ("--max-length-ratio", f"{part.max_length_ratio:g}")
        yield "--prefix-cache" if part.prefix_cache else "--no-prefix-cache"
        yield "--stream" if part.stream else "--no-stream"


def _env(spec: Spec, threads: int, gpu: int) -> dict[str, str]:
    env = {"OMP_NUM_THREADS": str(threads)}
    if threads > 1:
        env["GOMP_SPINCOUNT"] = _SPIN_COUNT
    if spec.accelerator.type == "nvidia":
        env["CUDA_VISIBLE_DEVICES"] = str(gpu)
    if spec.accelerator.type == "amd":
        env["HIP_VISIBLE_DEVICES"] = str(gpu)
    return env
