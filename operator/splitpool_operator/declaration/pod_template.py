"""What of a worker's pod may a pool change, and what is refused because it could lift the quota?"""

from typing import Annotated, Literal

from pydantic import Field

from splitpool_operator.declaration.fields import EnvName, Opaque, Part, ResourceList, Text

FORBIDDEN_ENV_PREFIXES = ("NVIDIA_", "CUDA_", "LD_", "PYTORCH_", "SPLITPOOL_")
FORBIDDEN_RESOURCE_PREFIXES = ("nvidia.com/", "amd.com/")
ShortText = Annotated[str, Field(max_length=253)]


class Resources(Part):
    """Host resources of a worker's container; GPUs follow from spec.sharing."""

    requests: ResourceList = Field(default_factory=dict)
    limits: ResourceList = Field(default_factory=dict)


class Toleration(Part):
    """A taint that the worker tolerates, as in a Pod."""

    key: ShortText | None = None
    operator: Literal["Exists", "Equal", "Lt", "Gt"] | None = None
    value: ShortText | None = None
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None
    toleration_seconds: int | None = None


class EnvVar(Part):
    """An environment variable of the worker; never one that could lift the quota."""

    name: EnvName
    value: Text | None = None
    value_from: Opaque | None = None


class Volume(Part):
    """A volume of the pod, as in a Pod; hostPath is refused."""

    name: ShortText
    empty_dir: Opaque | None = None
    config_map: Opaque | None = None
    secret: Opaque | None = None
    persistent_volume_claim: Opaque | None = None
    projected: Opaque | None = None
    ephemeral: Opaque | None = None
    csi: Opaque | None = None
    nfs: Opaque | None = None
    image: Opaque | None = None
    host_path: Opaque | None = Field(None, description="Always refused.")


class VolumeMount(Part):
    """Where a volume is mounted."""

    name: ShortText
    mount_path: Text
    sub_path: Text | None = None
    read_only: bool = False


class SecurityContext(Part):
    """Named only so that `privileged` is refused instead of dropped."""

    privileged: bool = Field(False, description="true is always refused.")


class PodTemplate(Part):
    """Additions to the worker's pod."""

    image: Annotated[str, Field(max_length=512)] | None = None
    priority_class_name: ShortText | None = None
    resources: Resources = Resources()
    node_selector: Annotated[dict[str, ShortText], Field(max_length=32)] = Field(
        default_factory=dict
    )
    tolerations: Annotated[list[Toleration], Field(max_length=32)] = Field(default_factory=list)
    env: Annotated[list[EnvVar], Field(max_length=64)] = Field(default_factory=list)
    volumes: Annotated[list[Volume], Field(max_length=32)] = Field(default_factory=list)
    volume_mounts: Annotated[list[VolumeMount], Field(max_length=32)] = Field(default_factory=list)
    host_ipc: bool = Field(False, alias="hostIPC", description="true is always refused.")
    host_pid: bool = Field(False, alias="hostPID", description="true is always refused.")
    host_network: bool = Field(False, description="true is always refused.")
    security_context: SecurityContext = SecurityContext()
