"""Do the quotas of a pool fit its GPUs, and what does a quota leave for the KV cache?

Pure arithmetic in bytes. A worker's quota holds context + weights + workspace + KV cache; on a
GPU the quotas of its workers and the headroom stay within its memory.
"""

from dataclasses import dataclass

from splitpool_operator.declaration import defaults
from splitpool_operator.declaration.pool import CLASSES, ClassName, Spec, class_spec
from splitpool_operator.planning import mig, packing
from splitpool_operator.planning.packing import Load
from splitpool_quantity.quantity import approximate, show

_MOST_ON_A_GPU = 256
# Modes in which a scheduler places by bytes, and knows nothing of the plan.
_BY_BYTES = frozenset({"DRA", "KAI", "HAMi"})


class DoesNotFit(Exception):
    """No placement on the declared GPUs exists; the message carries the numbers."""


class QuotaTooSmall(Exception):
    """A quota cannot hold the model and one sequence; the message carries the numbers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCard:
    """What the worker reads from a model's header; bytes unless the name says otherwise."""

    weights: int
    workspace: int
    context: int
    kv_per_token: int
    max_model_len: int
    block_size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """What becomes of the quota of one class in one worker."""

    quota: int
    context: int
    weights: int
    workspace: int
    kv: int
    tokens: int
    sequences: int

    @property
    def spare(self) -> int:
        """Bytes of the quota that are no whole KV block."""
        return self.quota - self.context - self.weights - self.workspace - self.kv


def room(quota: int, card: ModelCard, *, pays_weights: bool) -> Room:
    """The KV cache that a quota leaves; a class beside another in one worker pays no weights."""
    context, weights, workspace = (
        (card.context, card.weights, card.workspace) if pays_weights else (0, 0, 0)
    )
    block = card.block_size * card.kv_per_token
    blocks = max(0, quota - context - weights - workspace) // block
    per_sequence = -(-card.max_model_len // card.block_size)
    return Room(
        quota=quota,
        context=context,
        weights=weights,
        workspace=workspace,
        kv=blocks * block,
        tokens=blocks * card.block_size,
        sequences=blocks // per_sequence,
    )


def check_room(name: ClassName, room: Room, card: ModelCard) -> None:
    """Raises QuotaTooSmall where not even one sequence of maxModelLen has room."""
    if room.sequences >= 1:
        return
    one = -(-card.max_model_len // card.block_size) * card.block_size * card.kv_per_token
    fixed = room.context + room.weights + room.workspace
    least = -(-(fixed + one) // 1024**2)
    raise QuotaTooSmall(
        f"spec.pools.{name}.vram: {show(room.quota)} is too small: context "
        f"{approximate(room.context)} + weights {approximate(room.weights)} + workspace "
        f"{approximate(room.workspace)} + one sequence of maxModelLen {card.max_model_len} tokens "
        f"{approximate(one)} = {approximate(fixed + one)}; raise vram to {least}Mi or lower "
        "spec.model.maxModelLen"
    )


def place(spec: Spec, interactive: int, batch: int) -> list[Load]:
    """The workers of each GPU. Raises DoesNotFit with the numbers of the best that exists."""
    beside = most_beside(spec)
    shared = spec.topology == "Shared"
    counted = 0 if shared else batch
    gpus = spec.accelerator.count
    loads = packing.pack(gpus=gpus, interactive=interactive, batch=counted, most_beside=beside)
    if loads is None:
        raise DoesNotFit(_why(spec, interactive, counted, beside))
    return loads


def check_scaling(spec: Spec) -> None:
    """Raises DoesNotFit where autoscaling could ask for a placement that does not exist."""
    if spec.autoscaling.mode == "Off":
        return
    interactive, batch = (defaults.bounds(spec, name) for name in CLASSES)
    place(spec, interactive.low, batch.low)
    place(spec, interactive.high, batch.low)
    if spec.topology == "Split":
        place(spec, interactive.low, batch.high)


def batch_room(spec: Spec, interactive: int) -> tuple[int, ...]:
    """The most batch workers that the GPUs hold beside 0, 1, ... so many interactive ones; -1
    where those do not fit. Raises DoesNotFit for MIG profiles."""
    return packing.room(
        gpus=spec.accelerator.count, most=interactive, most_beside=tuple(most_beside(spec))
    )


def depends_on_order(spec: Spec) -> bool:
    """Whether a scheduler that adds up bytes can place some workers so that others find no room."""
    sharing = defaults.sharing(spec)
    if sharing is None or sharing.mode not in _BY_BYTES or spec.topology == "Shared":
        return False
    return not packing.fits_in_any_order(
        gpus=spec.accelerator.count,
        interactive=spec.pools.interactive.replicas,
        batch=spec.pools.batch.replicas,
        most_beside=most_beside(spec),
    )


def most_beside(spec: Spec) -> list[int]:
    """What one GPU of the pool holds, as `packing` reads it. Raises DoesNotFit for MIG profiles."""
    sharing = defaults.sharing(spec)
    shared = spec.topology == "Shared"
    if sharing is not None and sharing.mode == "Exclusive":
        return [0, 0] if shared else [1, 0]
    if sharing is not None and sharing.mode == "MIG":
        return _mig(spec, shared)
    usable = spec.accelerator.memory - defaults.headroom(spec)
    one, other = spec.pools.interactive.vram, spec.pools.batch.vram
    size = one + other if shared else one
    most = min(usable // size, _MOST_ON_A_GPU) if usable > 0 else 0
    return [0 if shared else (usable - count * size) // other for count in range(most + 1)]


def _mig(spec: Spec, shared: bool) -> list[int]:
    memory = spec.accelerator.memory
    try:
        one = mig.slice_of(spec.pools.interactive.mig_profile or "", memory)
        other = None if shared else mig.slice_of(spec.pools.batch.mig_profile or "", memory)
    except mig.NoSuchProfile as error:
        raise DoesNotFit(str(error)) from None
    return mig.most_beside(one, other)


def _why(spec: Spec, interactive: int, batch: int, beside: list[int]) -> str:
    gpus = spec.accelerator.count
    wanted = f"{interactive} x interactive ({_size(spec, 'interactive')})"
    if spec.topology == "Split":
        wanted += f" and {batch} x batch ({_size(spec, 'batch')})"
    usable = spec.accelerator.memory - defaults.headroom(spec)
    have = f"{gpus} x {show(usable)} ({show(spec.accelerator.memory)} - headroom)"
    holds = ", ".join(f"{x} + {y}" for x, y in enumerate(beside[:8]))
    most = packing.most_batch(gpus=gpus, interactive=interactive, most_beside=beside)
    best = (
        f"at most {gpus * (len(beside) - 1)} interactive fit at all"
        if most < 0
        else f"beside {interactive} interactive at most {most} batch fit"
    )
    return (
        f"{wanted} do not fit {have}: one GPU holds interactive + batch {holds}; {best}. Lower "
        "replicas or quotas, or raise spec.accelerator.count"
    )


def _size(spec: Spec, name: ClassName) -> str:
    if spec.topology == "Shared":
        both = spec.pools.interactive.vram + spec.pools.batch.vram
        return f"with batch's quota {show(both)}"
    profile = class_spec(spec, name).mig_profile
    return profile or show(class_spec(spec, name).vram)
