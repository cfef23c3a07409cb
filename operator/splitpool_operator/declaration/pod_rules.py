"""Which additions to a worker's pod are refused, because each could lift its quota?"""

from collections.abc import Callable, Iterator

from splitpool_operator.declaration.pod_template import (
    FORBIDDEN_ENV_PREFIXES,
    FORBIDDEN_RESOURCE_PREFIXES,
)
from splitpool_operator.declaration.pool import Spec
from splitpool_operator.declaration.problems import Problem

_WHY = "could lift the quota"


def _at(text: str, *path: str | int) -> Problem:
    return Problem(path=("spec", "podTemplate", *path), text=text)


def _no_quota_lifting_env(spec: Spec) -> Iterator[Problem]:
    for index, variable in enumerate(spec.pod_template.env):
        if variable.name.startswith(FORBIDDEN_ENV_PREFIXES):
            known = ", ".join(f"{prefix}*" for prefix in FORBIDDEN_ENV_PREFIXES)
            yield _at(f"{variable.name} {_WHY} ({known}); remove it", "env", index, "name")


def _no_gpu_resources(spec: Spec) -> Iterator[Problem]:
    resources = spec.pod_template.resources
    for kind, amounts in (("requests", resources.requests), ("limits", resources.limits)):
        for name in amounts:
            if name.startswith(FORBIDDEN_RESOURCE_PREFIXES):
                text = f"{_WHY}; GPUs follow from spec.sharing and spec.accelerator: remove it"
                yield _at(text, "resources", kind, name)


def _no_memory_limit_on_cpu(spec: Spec) -> Iterator[Problem]:
    if spec.accelerator.type == "cpu" and "memory" in spec.pod_template.resources.limits:
        text = f"{_WHY}: on cpu the limit is vram + hostMemory; remove it and set hostMemory"
        yield _at(text, "resources", "limits", "memory")


def _no_host_access(spec: Spec) -> Iterator[Problem]:
    template = spec.pod_template
    asked = {
        ("hostIPC",): template.host_ipc,
        ("hostPID",): template.host_pid,
        ("hostNetwork",): template.host_network,
        ("securityContext", "privileged"): template.security_context.privileged,
    }
    for path, wanted in asked.items():
        if wanted:
            yield _at(f"true {_WHY}; remove it", *path)


def _no_host_path(spec: Spec) -> Iterator[Problem]:
    for index, volume in enumerate(spec.pod_template.volumes):
        if volume.host_path is not None:
            text = f"{_WHY}; use a persistentVolumeClaim, emptyDir, configMap or image volume"
            yield _at(text, "volumes", index, "hostPath")


POD_RULES: tuple[tuple[Callable[[Spec], Iterator[Problem]], tuple[str, ...]], ...] = (
    (_no_quota_lifting_env, ("podTemplate.env",)),
    (_no_gpu_resources, ("podTemplate.resources",)),
    (_no_memory_limit_on_cpu, ("accelerator.type", "podTemplate.resources")),
    (
        _no_host_access,
        tuple(f"podTemplate.{f}" for f in ("hostIPC", "hostPID", "hostNetwork", "securityContext")),
    ),
    (_no_host_path, ("podTemplate.volumes",)),
)
