"""Which combinations of fields can never work? One rule per sentence of the declaration's contract.

The same rules stand in the CRD as CEL (`cel`): an API server refuses what a file reader refuses.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from splitpool_operator.declaration import defaults
from splitpool_operator.declaration.budget import budget
from splitpool_operator.declaration.pod_rules import POD_RULES
from splitpool_operator.declaration.pool import CLASSES, ClassName, Spec, class_spec
from splitpool_operator.declaration.problems import Path, Problem
from splitpool_quantity.quantity import show

Check = Callable[[Spec], Iterator[Problem]]
_MEMORY = ("accelerator.type", "accelerator.memory", "accelerator.headroom")
_QUOTAS = ("topology", "pools.interactive.vram", "pools.batch.vram")
_UNITS = (
    *_MEMORY,
    *_QUOTAS,
    "accelerator.count",
    "sharing",
    "pools.interactive.migProfile",
    "pools.batch.migProfile",
)
_REPLICAS = ("pools.interactive.replicas", "pools.batch.replicas")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A check over several fields, and the fields it reads (it is skipped while one is broken)."""

    name: str
    reads: tuple[str, ...]
    check: Check


def _at(text: str, *path: str | int) -> Problem:
    return Problem(path=("spec", *path), text=text)


def _quota_fits_gpu(spec: Spec) -> Iterator[Problem]:
    memory, reserve = spec.accelerator.memory, defaults.headroom(spec)
    most, where = memory - reserve, ("pools", "interactive", "vram")
    tail = f"headroom {show(reserve)} > accelerator.memory {show(memory)}"
    if spec.topology == "Shared":
        both = spec.pools.interactive.vram + spec.pools.batch.vram
        if both > most:
            yield _at(
                f"interactive {show(spec.pools.interactive.vram)} + batch "
                f"{show(spec.pools.batch.vram)} + {tail}; one worker holds both in Shared: "
                f"{_lower(spec, 'their sum', most)}",
                *where,
            )
        return
    for name in CLASSES:
        vram = class_spec(spec, name).vram
        if vram > most:
            yield _at(f"{show(vram)} + {tail}; {_lower(spec, 'vram', most)}", "pools", name, "vram")


def _lower(spec: Spec, what: str, most: int) -> str:
    if most <= 0:
        return "headroom leaves nothing: lower accelerator.headroom"
    cpu = spec.accelerator.type == "cpu"
    more = "raise accelerator.memory" if cpu else "name a GPU with more memory"
    return f"lower {what} to {show(most)} at most, or {more}"


def _budget_problem(
    spec: Spec, counts: tuple[int, int], said: str, *path: str
) -> Iterator[Problem]:
    limit = budget(spec)
    cost = limit.cost(*counts)
    if cost <= limit.total or any(_quota_fits_gpu(spec)):
        return  # a single quota that is too large has been told already
    batch = "" if spec.topology == "Shared" else f" + {counts[1]} x {limit.show(limit.batch)}"
    cpu = spec.accelerator.type == "cpu"
    of = {
        "bytes": "accelerator.memory - headroom"
        if cpu
        else f"accelerator.count {spec.accelerator.count} x (memory - headroom)",
        "GPUs": "accelerator.count; Exclusive gives each worker a whole GPU",
        "MIG slices": f"accelerator.count {spec.accelerator.count} x 7 slices",
    }[limit.unit]
    yield _at(
        f"{said}: {counts[0]} x {limit.show(limit.interactive)}{batch} = {limit.show(cost)} > "
        f"{limit.show(limit.total)} = {of}; lower replicas or quotas, or raise accelerator."
        f"{'memory' if cpu else 'count'}",
        *path,
    )


def _replicas_fit_budget(spec: Spec) -> Iterator[Problem]:
    counts = spec.pools.interactive.replicas, spec.pools.batch.replicas
    yield from _budget_problem(spec, counts, "all declared replicas do not fit", "pools")


def _minima_fit_budget(spec: Spec) -> Iterator[Problem]:
    if spec.autoscaling.mode != "Off":
        counts = defaults.bounds(spec, "interactive").low, defaults.bounds(spec, "batch").low
        said = "minReplicas of both classes do not fit together"
        yield from _budget_problem(spec, counts, said, "autoscaling")


def _maximum_fits_beside_minimum(spec: Spec) -> Iterator[Problem]:
    if spec.autoscaling.mode == "Off":
        return
    interactive, batch = defaults.bounds(spec, "interactive"), defaults.bounds(spec, "batch")
    said = "interactive.maxReplicas does not fit beside batch.minReplicas"
    counts = interactive.high, batch.low
    yield from _budget_problem(spec, counts, said, "autoscaling", "interactive")
    if spec.topology == "Split":
        said = "batch.maxReplicas does not fit beside interactive.minReplicas"
        counts = interactive.low, batch.high
        yield from _budget_problem(spec, counts, said, "autoscaling", "batch")


def _minimum_below_maximum(spec: Spec) -> Iterator[Problem]:
    if spec.autoscaling.mode == "Off":
        return
    for name in CLASSES:
        limits = defaults.bounds(spec, name)
        if limits.low > limits.high:
            yield _at(
                f"minReplicas {limits.low} > maxReplicas {limits.high} (pools.{name}.replicas "
                "where it is not set); lower minReplicas or raise maxReplicas",
                "autoscaling",
                name,
                "minReplicas",
            )


def _compute_percent_sum(spec: Spec) -> Iterator[Problem]:
    shares = [class_spec(spec, name).compute_percent or 0 for name in CLASSES]
    if sum(shares) > 100:
        yield _at(
            f"interactive {shares[0]} + batch {shares[1]} = {sum(shares)} > 100 percent of a GPU; "
            "lower one of them",
            "pools",
            "batch",
            "computePercent",
        )


def _batch_takes_more_members(spec: Spec) -> Iterator[Problem]:
    yield from _ordered("maxBatch", spec.pools.interactive.max_batch, spec.pools.batch.max_batch)


def _batch_waits_longer(spec: Spec) -> Iterator[Problem]:
    waits = spec.pools.interactive.max_wait_ms, spec.pools.batch.max_wait_ms
    yield from _ordered("maxWaitMs", *waits)


def _ordered(field: str, interactive: int, batch: int) -> Iterator[Problem]:
    if interactive > batch:
        yield _at(
            f"{interactive} > pools.batch.{field} {batch}; interactive gathers less than batch: "
            f"lower it to {batch} at most, or raise batch's",
            "pools",
            "interactive",
            field,
        )


def _budget_above_batch(spec: Spec) -> Iterator[Problem]:
    for name in CLASSES:
        declared, members = defaults.token_budget(spec, name), class_spec(spec, name).max_batch
        if declared < members + 16:
            default = "" if class_spec(spec, name).token_budget else " (the default)"
            yield _at(
                f"{declared}{default} < maxBatch {members} + 16, which leaves prefill no share; "
                f"raise tokenBudget to {members + 16} or lower maxBatch to {declared - 16}",
                "pools",
                name,
                "tokenBudget",
            )


def _shared_replicas_equal(spec: Spec) -> Iterator[Problem]:
    interactive, batch = spec.pools.interactive.replicas, spec.pools.batch.replicas
    if spec.topology == "Shared" and batch != interactive:
        yield _at(
            f"{batch} != pools.interactive.replicas {interactive}; in Shared each worker serves "
            f"both classes: write {interactive}, or topology: Split",
            "pools",
            "batch",
            "replicas",
        )


def _no_sharing_on_cpu(spec: Spec) -> Iterator[Problem]:
    if spec.accelerator.type == "cpu" and spec.sharing is not None:
        yield _at("is about GPUs and accelerator.type is cpu; remove sharing", "sharing")


def _one_count_on_cpu(spec: Spec) -> Iterator[Problem]:
    if spec.accelerator.type == "cpu" and spec.accelerator.count != 1:
        yield _at(
            f"{spec.accelerator.count} counts GPUs and accelerator.type is cpu; remove count: "
            "memory is all that the pool may use",
            "accelerator",
            "count",
        )


def _int8_on_cpu(spec: Spec) -> Iterator[Problem]:
    kind = spec.accelerator.type
    if spec.model.quantization == "int8" and kind != "cpu":
        yield _at(
            f"int8 runs on accelerator.type cpu only, and the type is {kind}; write none",
            "model",
            "quantization",
        )


def _mig_profile_with_mig(spec: Spec) -> Iterator[Problem]:
    shared = defaults.sharing(spec)
    mig = shared is not None and shared.mode == "MIG"
    for name in CLASSES:
        profile = class_spec(spec, name).mig_profile
        path: Path = ("pools", name, "migProfile")
        if mig and profile is None and _has_slice(spec, name):
            yield _at("is required with sharing.mode MIG; write one such as 3g.40gb", *path)
        if not mig and profile is not None:
            yield _at(f"{profile} needs sharing.mode MIG; set it or remove the profile", *path)


def _has_slice(spec: Spec, name: ClassName) -> bool:
    return name == "interactive" or spec.topology == "Split"


def _shared_mig_profile(spec: Spec) -> Iterator[Problem]:
    one, other = spec.pools.interactive.mig_profile, spec.pools.batch.mig_profile
    if spec.topology == "Shared" and other is not None and other != one:
        yield _at(
            f"{other} != pools.interactive.migProfile {one}; a Shared worker has one slice: "
            "remove batch's",
            "pools",
            "batch",
            "migProfile",
        )


_SCALING = (*_UNITS, *_REPLICAS, "autoscaling")
_MIG = ("topology", "sharing", "accelerator.type", *(f"pools.{n}.migProfile" for n in CLASSES))


def _rule(check: Check, *reads: str) -> Rule:
    return Rule(name=check.__name__.strip("_"), reads=reads, check=check)


RULES: tuple[Rule, ...] = (
    _rule(_quota_fits_gpu, *_MEMORY, *_QUOTAS),
    _rule(_replicas_fit_budget, *_UNITS, *_REPLICAS),
    _rule(_minima_fit_budget, *_SCALING),
    _rule(_maximum_fits_beside_minimum, *_SCALING),
    _rule(_minimum_below_maximum, "autoscaling", *_REPLICAS),
    _rule(_compute_percent_sum, *(f"pools.{n}.computePercent" for n in CLASSES)),
    _rule(_batch_takes_more_members, *(f"pools.{n}.maxBatch" for n in CLASSES)),
    _rule(_batch_waits_longer, *(f"pools.{n}.maxWaitMs" for n in CLASSES)),
    _rule(
        _budget_above_batch,
        "accelerator.type",
        *(f"pools.{n}.{f}" for n in CLASSES for f in ("maxBatch", "tokenBudget")),
    ),
    _rule(_shared_replicas_equal, "topology", *_REPLICAS),
    _rule(_no_sharing_on_cpu, "accelerator.type", "sharing"),
    _rule(_one_count_on_cpu, "accelerator.type", "accelerator.count"),
    _rule(_int8_on_cpu, "accelerator.type", "model.quantization"),
    _rule(_mig_profile_with_mig, *_MIG),
    _rule(_shared_mig_profile, *_MIG),
    *(_rule(check, *reads) for check, reads in POD_RULES),
)


def update_problems(old: Spec, new: Spec) -> Iterator[Problem]:
    """What may not change between two generations of one pool."""
    if old.accelerator.type != new.accelerator.type:
        yield _at(
            f"{new.accelerator.type} was {old.accelerator.type}; the type is immutable: "
            "create a second pool and delete this one",
            "accelerator",
            "type",
        )
