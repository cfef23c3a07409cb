"""Every rule of `rules` once more, in CEL, for the API server.

A quantity is read as whole bytes: `asInteger` refuses "1.5Gi", which Kubernetes keeps as a decimal,
so such a value goes through its exact enough float. There is no multiplication on quantities. A
message has no numbers where they are integers: the cost of their text cannot be bounded.
"""

from dataclasses import dataclass

from splitpool_operator.declaration.pod_template import (
    FORBIDDEN_ENV_PREFIXES,
    FORBIDDEN_RESOURCE_PREFIXES,
)

_I, _B = "self.pools.interactive", "self.pools.batch"
_SHARED = "self.topology == 'Shared'"
_CPU = "self.accelerator.type == 'cpu'"
_MODE = "(has(self.sharing) ? self.sharing.mode : 'DRA')"
_SCALING = "self.autoscaling.mode != 'Off'"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cel:
    """One validation: where in the schema it stands, the rule, and what a refusal says."""

    at: str
    rule: str
    message: str
    expression: str = ""
    field: str = ""


def _bytes(path: str) -> str:
    q = f"quantity({path})"
    return f"({q}.isInteger() ? {q}.asInteger() : int({q}.asApproximateFloat() + 0.5))"


def _with_memory(condition: str) -> str:
    """The condition over `memory` and `headroom` in bytes (a list of one binds a name in CEL)."""
    four_percent = "(memory * 4 / 100 > 2147483648 ? memory * 4 / 100 : 2147483648)"
    headroom = (
        f"has(self.accelerator.headroom) ? {_bytes('self.accelerator.headroom')} : "
        f"({_CPU} ? 0 : {four_percent})"
    )
    memory = _bytes("self.accelerator.memory")
    return f"[{memory}].all(memory, [{headroom}].all(headroom, {condition}))"


def _fits(interactive: str, batch: str) -> str:
    """Whether so many workers fit: GPUs in Exclusive, slices in MIG, else bytes."""
    count = "self.accelerator.count"
    alone = f"{_SHARED} ? {interactive}"
    gpus = f"({alone} : {interactive} + {batch}) <= {count}"
    one, other = _slices(_I), _slices(_B)
    slices = f"{interactive} * {one} + ({_SHARED} ? 0 : {batch} * {other}) <= 7 * {count}"
    size, rest = _bytes(f"{_I}.vram"), _bytes(f"{_B}.vram")
    cost = f"{interactive} * {size} + ({_SHARED} ? {interactive} : {batch}) * {rest}"
    in_bytes = _with_memory(f"memory < headroom || {cost} <= {count} * (memory - headroom)")
    return f"{_MODE} == 'Exclusive' ? {gpus} : ({_MODE} == 'MIG' ? {slices} : {in_bytes})"


def _slices(pool: str) -> str:
    return f"(has({pool}.migProfile) ? int({pool}.migProfile.substring(0, 1)) : 0)"


def _low(name: str, default: int) -> str:
    scale = f"self.autoscaling.{name}"
    return f"(has({scale}) ? {scale}.minReplicas : {default})"


def _high(name: str) -> str:
    scale, pool = f"self.autoscaling.{name}", f"self.pools.{name}"
    return f"(has({scale}) && has({scale}.maxReplicas) ? {scale}.maxReplicas : {pool}.replicas)"


def _budget(pool: str, on_gpu: int, on_cpu: int) -> str:
    return f"(has({pool}.tokenBudget) ? {pool}.tokenBudget : ({_CPU} ? {on_cpu} : {on_gpu}))"


def _ordered(field: str) -> Cel:
    return Cel(
        at="spec",
        rule=f"{_I}.{field} <= {_B}.{field}",
        message=f"pools.interactive.{field} must not be above pools.batch.{field}; lower it, or "
        "raise batch's",
        field=f".pools.interactive.{field}",
    )


def _single_quota(name: str, path: str) -> Cel:
    fits = _with_memory(f"{_bytes(f'{path}.vram')} + headroom <= memory")
    return Cel(
        at="spec",
        rule=f"{_SHARED} || {fits}",
        message=f"pools.{name}.vram + headroom must fit accelerator.memory",
        expression=f"'pools.{name}.vram ' + {path}.vram + ' + headroom > accelerator.memory ' + "
        "self.accelerator.memory + '; lower vram or name a GPU with more memory'",
        field=f".pools.{name}.vram",
    )


_BOTH = f"{_bytes(f'{_I}.vram')} + {_bytes(f'{_B}.vram')}"
_LOW_I, _LOW_B = _low("interactive", 1), _low("batch", 0)
_HIGH_I, _HIGH_B = _high("interactive"), _high("batch")
_FITS_HINT = "lower replicas or quotas, or raise accelerator.count (cpu: memory)"


# A default of {} is validated before the defaults inside it apply, hence the tests of presence.
_HOST_ACCESS = ("hostIPC", "hostPID", "hostNetwork")


def _starts(variable: str, prefixes: tuple[str, ...]) -> str:
    return " || ".join(f"{variable}.startsWith('{prefix}')" for prefix in prefixes)


def _no_gpu(kind: str) -> Cel:
    return Cel(
        at="spec.podTemplate",
        rule=f"!has(self.resources) || !has(self.resources.{kind}) || self.resources.{kind}"
        f".all(name, !({_starts('name', FORBIDDEN_RESOURCE_PREFIXES)}))",
        message=f"podTemplate.resources.{kind}: GPUs follow from spec.sharing; remove them",
        field=f".resources.{kind}",
    )


def _profile(name: str, path: str, needed: str) -> tuple[Cel, Cel]:
    return (
        Cel(
            at="spec",
            rule=f"{_CPU} || {_MODE} != 'MIG' || {needed} || has({path}.migProfile)",
            message=f"pools.{name}.migProfile is required with sharing.mode MIG",
            field=f".pools.{name}",
        ),
        Cel(
            at="spec",
            rule=f"!has({path}.migProfile) || (!({_CPU}) && {_MODE} == 'MIG')",
            message=f"pools.{name}.migProfile needs sharing.mode MIG; set it or remove the profile",
            field=f".pools.{name}.migProfile",
        ),
    )


def _minimum(name: str, low: str, high: str) -> Cel:
    return Cel(
        at="spec",
        rule=f"!({_SCALING}) || {low} <= {high}",
        message=f"autoscaling.{name}: minReplicas must not be above maxReplicas (pools.{name}."
        "replicas where it is not set)",
        field=".autoscaling",
    )


def _room_for_prefill(name: str, path: str, on_gpu: int, on_cpu: int) -> Cel:
    budget = _budget(path, on_gpu, on_cpu)
    return Cel(
        at="spec",
        rule=f"{budget} >= {path}.maxBatch + 16",
        message=f"pools.{name}.tokenBudget (default {on_gpu}, cpu {on_cpu}) must be at least "
        "maxBatch + 16; raise it or lower maxBatch",
        field=f".pools.{name}",
    )


RULES_IN_CEL: dict[str, tuple[Cel, ...]] = {
    "quota_fits_gpu": (
        _single_quota("interactive", _I),
        _single_quota("batch", _B),
        Cel(
            at="spec",
            rule=f"!({_SHARED}) || {_with_memory(f'{_BOTH} + headroom <= memory')}",
            message="with topology Shared both quotas + headroom must fit accelerator.memory",
            expression=f"'pools.interactive.vram ' + {_I}.vram + ' + pools.batch.vram ' + {_B}.vram"
            " + ' + headroom > accelerator.memory ' + self.accelerator.memory + '; lower them'",
            field=".pools.interactive.vram",
        ),
    ),
    "replicas_fit_budget": (
        Cel(
            at="spec",
            rule=_fits(f"{_I}.replicas", f"{_B}.replicas"),
            message=f"all declared replicas must fit the accelerators; {_FITS_HINT}",
            expression=f"'all declared replicas of ' + {_I}.vram + ' and ' + {_B}.vram + ' do not "
            f"fit accelerator.count x (' + self.accelerator.memory + ' - headroom); {_FITS_HINT}'",
            field=".pools",
        ),
    ),
    "minima_fit_budget": (
        Cel(
            at="spec",
            rule=f"!({_SCALING}) || ({_fits(_LOW_I, _LOW_B)})",
            message=f"minReplicas of both classes must fit together; {_FITS_HINT}",
            field=".autoscaling",
        ),
    ),
    "maximum_fits_beside_minimum": (
        Cel(
            at="spec",
            rule=f"!({_SCALING}) || ({_fits(_HIGH_I, _LOW_B)})",
            message=f"interactive.maxReplicas must fit beside batch.minReplicas; {_FITS_HINT}",
            field=".autoscaling",
        ),
        Cel(
            at="spec",
            rule=f"!({_SCALING}) || {_SHARED} || ({_fits(_LOW_I, _HIGH_B)})",
            message=f"batch.maxReplicas must fit beside interactive.minReplicas; {_FITS_HINT}",
            field=".autoscaling",
        ),
    ),
    "minimum_below_maximum": (
        _minimum("interactive", _LOW_I, _HIGH_I),
        _minimum("batch", _LOW_B, _HIGH_B),
    ),
    "compute_percent_sum": (
        Cel(
            at="spec",
            rule=f"(has({_I}.computePercent) ? {_I}.computePercent : 0) + "
            f"(has({_B}.computePercent) ? {_B}.computePercent : 0) <= 100",
            message="the computePercent of both classes must not exceed 100 together",
            field=".pools.batch",
        ),
    ),
    "batch_takes_more_members": (_ordered("maxBatch"),),
    "batch_waits_longer": (_ordered("maxWaitMs"),),
    "budget_above_batch": (
        _room_for_prefill("interactive", _I, 2048, 256),
        _room_for_prefill("batch", _B, 8192, 512),
    ),
    "shared_replicas_equal": (
        Cel(
            at="spec",
            rule=f"!({_SHARED}) || {_I}.replicas == {_B}.replicas",
            message="with topology Shared pools.batch.replicas must equal pools.interactive."
            "replicas: each worker serves both classes",
            field=".pools.batch.replicas",
        ),
    ),
    "no_sharing_on_cpu": (
        Cel(
            at="spec",
            rule=f"!({_CPU}) || !has(self.sharing)",
            message="sharing is about GPUs and accelerator.type is cpu; remove sharing",
            field=".sharing",
        ),
    ),
    "one_count_on_cpu": (
        Cel(
            at="spec",
            rule=f"!({_CPU}) || self.accelerator.count == 1",
            message="accelerator.count counts GPUs and accelerator.type is cpu; remove count",
            field=".accelerator.count",
        ),
    ),
    "int8_on_cpu": (
        Cel(
            at="spec",
            rule=f"{_CPU} || self.model.quantization != 'int8'",
            message="model.quantization int8 runs on accelerator.type cpu only; write none",
            field=".model.quantization",
        ),
    ),
    "mig_profile_with_mig": (
        *_profile("interactive", _I, "false"),
        *_profile("batch", _B, _SHARED),
    ),
    "shared_mig_profile": (
        Cel(
            at="spec",
            rule=f"!({_SHARED}) || !has({_B}.migProfile) || "
            f"(has({_I}.migProfile) && {_B}.migProfile == {_I}.migProfile)",
            message="with topology Shared a worker has one slice; remove pools.batch.migProfile",
            field=".pools.batch.migProfile",
        ),
    ),
    "no_quota_lifting_env": (
        Cel(
            at="spec.podTemplate.env.items",
            rule=f"!({_starts('self.name', FORBIDDEN_ENV_PREFIXES)})",
            message=f"{', '.join(f'{p}*' for p in FORBIDDEN_ENV_PREFIXES)} could lift the quota; "
            "remove the variable",
            expression="self.name + ' could lift the quota; remove it'",
        ),
    ),
    "no_gpu_resources": (_no_gpu("requests"), _no_gpu("limits")),
    "no_memory_limit_on_cpu": (
        Cel(
            at="spec",
            rule=f"!({_CPU}) || !has(self.podTemplate.resources) || "
            "!has(self.podTemplate.resources.limits) || "
            "!('memory' in self.podTemplate.resources.limits)",
            message="on cpu the memory limit is vram + hostMemory; remove podTemplate's and set "
            "hostMemory",
            field=".podTemplate",
        ),
    ),
    "no_host_access": (
        Cel(
            at="spec.podTemplate",
            rule=" && ".join(f"!(has(self.{f}) && self.{f})" for f in _HOST_ACCESS)
            + " && !(has(self.securityContext) && has(self.securityContext.privileged)"
            " && self.securityContext.privileged)",
            message="hostIPC, hostPID, hostNetwork, privileged could lift the quota; remove them",
        ),
    ),
    "no_host_path": (
        Cel(
            at="spec.podTemplate.volumes.items",
            rule="!has(self.hostPath)",
            message="hostPath could lift the quota; use a persistentVolumeClaim, emptyDir, "
            "configMap or image volume",
        ),
    ),
}

TRANSITIONS: tuple[Cel, ...] = (
    Cel(
        at="spec.accelerator.type",
        rule="self == oldSelf",
        message="the type is immutable: create a second pool and delete this one",
    ),
)

NAME = Cel(
    at="",
    rule="size(self.metadata.name) <= 50 && !self.metadata.name.contains('.')",
    message="metadata.name has at most 50 characters and no dot; its children are named after it",
)

# Fractions of quantities are floats to the API server, but the text shows whether they are whole:
# three decimals are whole in thousands, eighths in powers of 1024.
_WHOLE = "|".join(
    (
        r"(\\.0+)?([kKMGT]i?|[eE][0-9]+)?",
        r"\\.[0-9]+[kMGT]",
        r"\\.(125|250?|375|50{0,2}|625|750?|875)[KMGT]i",
        r"\\.[0-9]0*[eE]0?1",
        r"\\.[0-9][0-9]0*[eE]0?2",
        r"\\.[0-9]+[eE](0?[3-9]|[1-9][0-9])",
    )
)
WHOLE_BYTES = Cel(
    at="",
    rule=f"self.matches('^[0-9]+({_WHOLE})$')",
    message="not a whole number of bytes; write a smaller unit, such as 1536Mi for 1.5Gi",
)
BELOW_A_PEBIBYTE = Cel(
    at="", rule="quantity(self).isLessThan(quantity('1Pi'))", message="must be below 1Pi"
)
POSITIVE = Cel(
    at="",
    rule="quantity(self).isGreaterThan(quantity('0'))",
    message='0 bytes are not enough; write "80Gi"',
)
