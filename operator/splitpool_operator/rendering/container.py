"""What does the container of a worker run: arguments, environment, probes, resources, rights?"""

from collections.abc import Mapping
from typing import Any

from splitpool_operator.declaration.pool import Spec, class_spec
from splitpool_operator.rendering.installation import Installation
from splitpool_operator.rendering.model_source import ModelFiles
from splitpool_operator.rendering.roles import Role
from splitpool_operator.rendering.sharing import CLAIM, CONTAINER, Fence
from splitpool_quantity.quantity import show

PORT = 8000
PORT_NAME = "http"
# Routers learn that a worker ends before it stops to take requests.
PRE_STOP_SECONDS = 5
# Bounded spinning of OpenMP's threads; unbounded it starves whoever shares the cores.
_SPIN_COUNT = "2000"
RESTRICTED = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}
# The status of a pool shows why a worker refused to start.
_LAST_WORDS = {"terminationMessagePolicy": "FallbackToLogsOnError"}
_TMP = {"name": "tmp", "mountPath": "/tmp"}


def environment(role: Role) -> dict[str, str]:
    """The worker's environment that only a rollout changes; it stands in a ConfigMap."""
    threads = {} if role.threads is None else {"OMP_NUM_THREADS": str(role.threads)}
    return {
        "GOMP_SPINCOUNT": _SPIN_COUNT,
        "HF_HOME": "/tmp/huggingface",
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "HOME": "/tmp",
        **threads,
    }


def worker(
    spec: Spec,
    role: Role,
    fence: Fence,
    files: ModelFiles,
    installation: Installation,
    config_map: str,
) -> dict[str, Any]:
    """The container that serves."""
    return {
        "name": CONTAINER,
        "image": image(spec, installation),
        "command": ["python", "-m", "splitpool_worker", "serve"],
        "args": _arguments(role, files),
        "envFrom": [{"configMapRef": {"name": config_map}}],
        "env": _env(spec, role, fence, installation),
        "ports": [{"name": PORT_NAME, "containerPort": PORT, "protocol": "TCP"}],
        "resources": _resources(spec, role, fence),
        "volumeMounts": [_TMP, *files.mounts(read_only=True), *template_mounts(spec)],
        **_probes(),
        "lifecycle": {"preStop": {"sleep": {"seconds": PRE_STOP_SECONDS}}},
        **_LAST_WORDS,
        "securityContext": RESTRICTED,
    }


def download(
    spec: Spec, files: ModelFiles, installation: Installation, config_map: str
) -> dict[str, Any]:
    """The container that fetches the model before the worker starts."""
    return {
        "name": "model",
        "image": image(spec, installation),
        "command": list(files.download),
        "envFrom": [{"configMapRef": {"name": config_map}}],
        "env": template_env(spec),
        "volumeMounts": [_TMP, *files.mounts(read_only=False), *template_mounts(spec)],
        **_LAST_WORDS,
        "securityContext": RESTRICTED,
    }


def image(spec: Spec, installation: Installation) -> str:
    """The pool's own image, or the installation's."""
    return spec.pod_template.image or installation.worker_image


def template_env(spec: Spec) -> list[dict[str, Any]]:
    """The variables that the pool adds."""
    return [_dump(variable) for variable in spec.pod_template.env]


def template_mounts(spec: Spec) -> list[dict[str, Any]]:
    """The mounts that the pool adds."""
    return [_dump(mount) for mount in spec.pod_template.volume_mounts]


def _arguments(role: Role, files: ModelFiles) -> list[str]:
    threads = "$(CPU_LIMIT)" if role.threads is None else str(role.threads)
    own = {"--name": "$(POD_NAME)", "--model": files.source, "--threads": threads}
    argv = list(role.worker.argv)
    for flag, value in own.items():
        argv[argv.index(flag) + 1] = value
    return ["--host", "0.0.0.0", "--port", str(PORT), *argv]


def _env(spec: Spec, role: Role, fence: Fence, installation: Installation) -> list[dict[str, Any]]:
    """Names that $(NAME) refers to come first; what the pool adds cannot be one of ours."""
    token = {"name": installation.internal_secret, "key": "token", "optional": True}
    env: list[dict[str, Any]] = [
        _field("POD_NAME", "metadata.name"),
        _field("NODE_NAME", "spec.nodeName"),
    ]
    if role.threads is None:
        env += [_cpu_limit("CPU_LIMIT"), _cpu_limit("OMP_NUM_THREADS")]
    env.append({"name": "SPLITPOOL_INTERNAL_TOKEN", "valueFrom": {"secretKeyRef": token}})
    env += [{"name": name, "value": value} for name, value in fence.env.items()]
    ours = {variable["name"] for variable in env}
    return env + [variable for variable in template_env(spec) if variable["name"] not in ours]


def _field(name: str, path: str) -> dict[str, Any]:
    reference = {"apiVersion": "v1", "fieldPath": path}
    return {"name": name, "valueFrom": {"fieldRef": reference}}


def _cpu_limit(name: str) -> dict[str, Any]:
    """The cores that the pod may use; those of its node where it has no limit."""
    reference = {"containerName": CONTAINER, "resource": "limits.cpu", "divisor": "1"}
    return {"name": name, "valueFrom": {"resourceFieldRef": reference}}


def _resources(spec: Spec, role: Role, fence: Fence) -> dict[str, Any]:
    """The pool's additions below what keeps the quota."""
    declared = spec.pod_template.resources
    host = max(class_spec(spec, name).host_memory for name in role.classes)
    cores = {} if role.threads is None else {"cpu": str(role.threads)}
    requests = {"memory": show(host), **cores, **_text(declared.requests), **_text(fence.requests)}
    limits = {**_text(declared.limits), **_text(fence.limits)}
    resources: dict[str, Any] = {"requests": requests}
    if limits:
        resources["limits"] = limits
    if fence.claim is not None:
        resources["claims"] = [{"name": CLAIM}]
    return resources


def _text(amounts: Mapping[str, str | int]) -> dict[str, str]:
    """Quantities as the API server stores them."""
    return {name: str(amount) for name, amount in amounts.items()}


def _probes() -> dict[str, Any]:
    """Loading a model may take half an hour; /health answers as soon as it is served."""
    return {
        "startupProbe": _probe("/health", period=2, failures=900),
        "livenessProbe": _probe("/health", period=10, failures=3),
        "readinessProbe": _probe("/ready", period=2, failures=2),
    }


def _probe(path: str, *, period: int, failures: int) -> dict[str, Any]:
    return {
        "httpGet": {"path": path, "port": PORT_NAME, "scheme": "HTTP"},
        "periodSeconds": period,
        "timeoutSeconds": 5,
        "failureThreshold": failures,
    }


def _dump(part: Any) -> dict[str, Any]:
    dumped: dict[str, Any] = part.model_dump(by_alias=True, exclude_none=True, mode="json")
    return dumped
