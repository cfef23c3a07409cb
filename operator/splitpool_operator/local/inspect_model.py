"""What does the worker read from a model's header: weights, workspace and KV bytes per token?

Asks `python -m splitpool_worker inspect` in a process of its own, so that the operator knows no
model format.
"""

import json
import subprocess
import sys
from collections.abc import Sequence

from splitpool_operator.declaration.pool import Spec
from splitpool_operator.planning.plan import Step
from splitpool_operator.planning.quota import ModelCard

INSPECT = (sys.executable, "-m", "splitpool_worker", "inspect")
LOCAL_SCHEMES = ("file://", "python://")
# What a worker calls a maxModelLen that its model does not have.
_BAD_LENGTH = "bad_model_length"
_PATIENCE_SECONDS = 120


class InspectFailed(Exception):
    """The worker cannot read the model; `code` is its exit code (4: missing, 2: unsuitable)."""

    def __init__(self, *, code: int, message: str) -> None:
        self.code = code
        super().__init__(message)


def is_local(spec: Spec) -> bool:
    """Whether the model's bytes are on this machine, so that its header can be read."""
    return spec.model.source.startswith(LOCAL_SCHEMES)


def inspect(spec: Spec, step: Step, command: Sequence[str] = INSPECT) -> ModelCard:
    """The card of the pool's model for workers of so large a step. Raises InspectFailed."""
    arguments = ["--model", spec.model.source, "--dtype", spec.model.dtype]
    arguments += ["--quantization", spec.model.quantization]
    if spec.model.max_model_len is not None:
        arguments += ["--max-model-len", str(spec.model.max_model_len)]
    arguments += ["--max-tokens", str(step.tokens), "--max-rows", str(step.rows)]
    arguments += ["--ops", "cpu" if spec.accelerator.type == "cpu" else "reference"]
    try:
        done = subprocess.run(
            [*command, *arguments],
            capture_output=True,
            text=True,
            timeout=_PATIENCE_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise InspectFailed(code=1, message=f"the model's header cannot be read: {error}") from None
    if done.returncode != 0:
        raise InspectFailed(code=done.returncode, message=_said(spec, done.stderr))
    return _card(done.stdout)


def _card(output: str) -> ModelCard:
    try:
        raw = json.loads(output)
        return ModelCard(
            weights=raw["weightsBytes"],
            workspace=raw["workspaceBytes"],
            context=raw["contextBytes"],
            kv_per_token=raw["kvBytesPerToken"],
            max_model_len=raw["maxModelLen"],
            block_size=raw["blockSize"],
        )
    except (ValueError, KeyError, TypeError) as error:
        raise InspectFailed(code=1, message=f"inspect printed no model card: {error}") from None


def _said(spec: Spec, stderr: str) -> str:
    """The worker's words behind the field that they are about."""
    error = _last_error(stderr.splitlines())
    if error.get("code") == _BAD_LENGTH:
        return f"spec.model.{error.get('message')}"
    tail = error.get("message") or (stderr.strip().splitlines() or ["it printed nothing"])[-1]
    return f"spec.model.source: {spec.model.source}: {tail}"


def last_error(lines: Sequence[str]) -> str | None:
    """The message of the JSON error object that a worker prints last, if it did."""
    return _last_error(lines).get("message")


def _last_error(lines: Sequence[str]) -> dict[str, str]:
    for line in reversed(lines):
        if line.startswith("{"):
            try:
                error = json.loads(line)["error"]
                return {key: str(error[key]) for key in ("code", "message") if key in error}
            except (ValueError, KeyError, TypeError):
                return {}
    return {}
