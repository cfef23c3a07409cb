"""What is an InferencePool: its fields, their constant defaults and their single-value limits.

Rules between fields are in `rules`, defaults that depend on others in `defaults`, files in
`reading`.
"""

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field

from splitpool_operator.declaration.fields import (
    Bytes,
    BytesOrZero,
    Header,
    MigProfile,
    ModelName,
    Namespace,
    Part,
    PoolName,
    Source,
    Url,
)
from splitpool_operator.declaration.fields import Objective as ObjectiveName
from splitpool_operator.declaration.pod_template import PodTemplate

API_VERSION = "splitpool.dev/v1alpha1"
KIND = "InferencePool"
DEFAULT_NAMESPACE = "default"

ClassName: TypeAlias = Literal["interactive", "batch"]
CLASSES: tuple[ClassName, ClassName] = ("interactive", "batch")
Replicas = Annotated[int, Field(ge=0, le=256)]
Seconds = Annotated[int, Field(ge=0, le=86_400)]


class Model(Part):
    """The model that both classes serve."""

    name: ModelName = Field(description="What clients send as `model`.")
    source: Source = Field(
        description="file:///path, python://package/file.gguf, pvc://claim/path, "
        "hf://org/repo[@rev] or oci://image."
    )
    dtype: Literal["bfloat16", "float32"] = Field(
        "bfloat16", description="Type of weights, activations and KV cache."
    )
    quantization: Literal["none", "int8"] = Field(
        "none",
        description="int8: weights are quantised when they are loaded, activations token by token; "
        "cpu only. The KV cache stays in dtype.",
    )
    draft_tokens: Annotated[int, Field(ge=0, le=15)] = Field(
        7,
        description="Tokens guessed from the text so far that a decoding sequence may have "
        "computed in a step beside its next one, where that is likely to save steps; 0: none. "
        "Answers are the same, whatever is guessed. cpu only: elsewhere nothing is guessed.",
    )
    max_model_len: Annotated[int, Field(ge=16, le=16_777_216)] | None = Field(
        None, description="Longest sequence (prompt and answer) in tokens; absent: the model's own."
    )


class Accelerator(Part):
    """The GPUs, or the host memory, that this pool may span."""

    type: Literal["nvidia", "amd", "cpu"] = Field(
        "nvidia", description="Immutable: make another pool for another type."
    )
    memory: Bytes = Field(description="Memory of one GPU; cpu: host memory that this pool may use.")
    headroom: BytesOrZero | None = Field(
        None,
        description="Per GPU, never handed out (contexts, NCCL, driver). Absent: the larger of "
        "2Gi and 4 % of memory; cpu: nothing.",
    )
    count: Annotated[int, Field(ge=1, le=256)] = Field(
        1, description="GPUs that this pool may span: the budget."
    )
    cores: Annotated[int, Field(ge=1, le=1024)] | None = Field(
        None, description="CPU cores shared out to the workers; absent: what the machine has."
    )


class Sharing(Part):
    """How several workers share a GPU, and the weakest fence that is accepted."""

    mode: Literal["Exclusive", "MIG", "DRA", "KAI", "HAMi", "MPS", "TimeSlicing"] = "DRA"
    minimum_enforcement: Literal[
        "Hardware", "Driver", "MPS", "Cgroup", "Interposer", "Cooperative"
    ] = Field("Cooperative", description="Below this the pool is Stalled.")
    kai_queue: Annotated[str, Field(min_length=1, max_length=63)] = Field(
        "default", description="Queue of the KAI scheduler."
    )


class ClassSpec(Part):
    """One latency class: its quota, its workers and its scheduling limits."""

    vram: Bytes = Field(
        description="Hard quota of one worker: context + weights + workspace + KV cache."
    )
    replicas: Replicas = Field(1, description="Workers; with Managed autoscaling only at first.")
    token_budget: Annotated[int, Field(ge=17, le=1_048_576)] | None = Field(
        None,
        description="Tokens of one step; at least maxBatch + 16. Absent: interactive 2048, batch "
        "8192; cpu 256 and 512.",
    )
    prefill_chunk: Annotated[int, Field(ge=1, le=1_048_576)] | None = Field(
        None,
        description="Prompt tokens of one sequence in a step. Absent: interactive 512, batch "
        "2048; cpu 128 and 256.",
    )
    max_step_ms: Annotated[int, Field(ge=1, le=60_000)] | None = Field(
        None, description="Longest planned step. Absent: 50; cpu 100."
    )
    max_length_ratio: Annotated[float, Field(ge=1, le=1000)] = Field(
        4, description="Longest to shortest sequence that are batched by preference."
    )
    prefix_cache: bool = Field(True, description="Keep the KV blocks of finished prompts.")
    max_queue_tokens: Annotated[int, Field(ge=1, le=2**40)] | None = Field(
        None, description="Router's queue over all workers. Absent: 4 x what the class's KV holds."
    )
    objective: ObjectiveName | None = Field(
        None, description="Value of the inference-objective header that means this class."
    )
    mig_profile: MigProfile | None = Field(None, description="Required with sharing.mode MIG.")
    compute_percent: Annotated[int, Field(ge=1, le=100)] | None = Field(
        None, description="Share of the GPU's compute where the sharing mode has one."
    )
    host_memory: Bytes = Field(
        1024**3,
        description="Host memory of one worker beside its quota (interpreter, torch).",
        json_schema_extra={"default": "1Gi"},
    )


MaxBatch = Annotated[int, Field(ge=1, le=4096)]
MaxWait = Annotated[int, Field(ge=0, le=60_000)]
Target = Annotated[int, Field(ge=1, le=600_000)]
_MAX_BATCH = "Sequences that run together."
_MAX_WAIT = "Longest that admission may hold a request back to admit several together."
_STREAM = "false: streams asked for are served, with at most five events a second."
_TARGET = "Target of the time to first token, p99; absent: no target, no alert, no scaling on it."
_QUEUE = "Longest wait in the router's queue."
_DRAIN = "Longest that running requests may take when a worker stops."


class Interactive(ClassSpec):
    """The class for people who wait: low time to first token."""

    max_batch: MaxBatch = Field(8, description=_MAX_BATCH)
    max_wait_ms: MaxWait = Field(30, description=_MAX_WAIT)
    stream: bool = Field(True, description=_STREAM)
    ttft_p99_ms: Target | None = Field(500, description=_TARGET)
    queue_timeout_seconds: Seconds = Field(10, description=_QUEUE)
    drain_seconds: Seconds = Field(120, description=_DRAIN)


class Batch(ClassSpec):
    """The class for jobs: high throughput."""

    max_batch: MaxBatch = Field(64, description=_MAX_BATCH)
    max_wait_ms: MaxWait = Field(300, description=_MAX_WAIT)
    stream: bool = Field(False, description=_STREAM)
    ttft_p99_ms: Target | None = Field(None, description=_TARGET)
    queue_timeout_seconds: Seconds = Field(600, description=_QUEUE)
    drain_seconds: Seconds = Field(600, description=_DRAIN)


class Pools(Part):
    """Both classes."""

    interactive: Interactive
    batch: Batch


class Resume(Part):
    """Streams that a client may pick up again after a lost connection."""

    mode: Literal["OnRequest", "Always", "Off"] = Field(
        "OnRequest", description='Quote "Off": YAML 1.1 readers take a bare Off for false.'
    )
    window_seconds: Annotated[int, Field(ge=1, le=3600)] = 30
    buffer_bytes: Bytes = Field(
        4 * 1024**2, description="Of one stream.", json_schema_extra={"default": "4Mi"}
    )


class Routing(Part):
    """What the router does where the request does not say."""

    default_class: ClassName = "interactive"
    spill_to_batch: bool = Field(
        False, description="Interactive requests may go to batch workers when theirs are full."
    )
    forward_headers: Annotated[list[Header], Field(max_length=32)] = Field(
        [], description="Headers of the client that reach the worker, such as Authorization."
    )


class ScaleInteractive(Part):
    """Bounds of the interactive class."""

    min_replicas: Replicas = 1
    max_replicas: Replicas | None = Field(None, description="Absent: replicas.")


class ScaleBatch(Part):
    """Bounds of the batch class; not used with topology Shared."""

    min_replicas: Replicas = 0
    max_replicas: Replicas | None = Field(None, description="Absent: replicas.")
    backlog_seconds: Annotated[int, Field(ge=1, le=604_800)] = Field(
        600, description="Time in which the backlog is to be worked off."
    )


class Prometheus(Part):
    """Where the signals are read."""

    url: Url


class Autoscaling(Part):
    """Whether and within which bounds replicas move; they move in a cluster only."""

    mode: Literal["Managed", "External", "Off"] = Field(
        "Off", description='Quote "Off": YAML 1.1 readers take a bare Off for false.'
    )
    interactive: ScaleInteractive | None = None
    batch: ScaleBatch | None = None
    prometheus: Prometheus | None = None


class Spec(Part):
    """The declaration."""

    model: Model
    accelerator: Accelerator
    topology: Literal["Split", "Shared"] = Field(
        "Split",
        description="Split: workers of one class each. Shared: each worker serves both classes, "
        "weights once (charged to interactive), KV cache partitioned by class.",
    )
    sharing: Sharing | None = Field(
        None, description="Forbidden on cpu. Absent on GPUs: DRA, Cooperative."
    )
    pools: Pools
    resume: Resume = Resume()
    routing: Routing = Routing()
    autoscaling: Autoscaling = Autoscaling()
    pod_template: PodTemplate = PodTemplate()


class Metadata(Part):
    """What splitpool reads of an object's metadata; the rest of Kubernetes' fields may be there."""

    name: PoolName
    namespace: Namespace = DEFAULT_NAMESPACE
    generation: int = 1
    uid: str = ""
    labels: dict[str, str] = Field(default_factory=dict)
    annotations: dict[str, str] = Field(default_factory=dict)
    generate_name: str | None = None
    resource_version: str | None = None
    creation_timestamp: Any = None
    deletion_timestamp: Any = None
    deletion_grace_period_seconds: int | None = None
    finalizers: list[str] = Field(default_factory=list)
    owner_references: list[Any] = Field(default_factory=list)
    managed_fields: list[Any] = Field(default_factory=list)
    self_link: str | None = None


class InferencePool(Part):
    """One model, served by an interactive and a batch pool of workers on the same GPUs."""

    api_version: Literal["splitpool.dev/v1alpha1"]
    kind: Literal["InferencePool"]
    metadata: Metadata
    spec: Spec
    status: dict[str, Any] = Field(default={}, exclude=True)

    @property
    def key(self) -> tuple[str, str]:
        """Namespace and name, which no two pools share."""
        return self.metadata.namespace, self.metadata.name


def class_spec(spec: Spec, name: ClassName) -> Interactive | Batch:
    """The declaration of one class."""
    return spec.pools.interactive if name == "interactive" else spec.pools.batch


def from_object(raw: object) -> InferencePool:
    """An object that an API server has validated, pruned and may know more fields of than we do.

    Raises pydantic.ValidationError.
    """
    return InferencePool.model_validate(raw, extra="ignore")
