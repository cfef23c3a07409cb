"""What do workers cost, and how much may a pool spend: bytes, whole GPUs or MIG slices?"""

from dataclasses import dataclass

from splitpool_operator.declaration.defaults import headroom, sharing
from splitpool_operator.declaration.pool import ClassName, Spec, class_spec
from splitpool_quantity.quantity import approximate

MIG_SLICES = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """Cost of one worker of each class, in the unit that the sharing mode counts, and the total."""

    unit: str
    total: int
    interactive: int
    batch: int

    def cost(self, interactive: int, batch: int) -> int:
        """What so many workers of both classes take."""
        return interactive * self.interactive + batch * self.batch

    def show(self, amount: int) -> str:
        """An amount with its unit."""
        return approximate(amount) if self.unit == "bytes" else f"{amount} {self.unit}"


def budget(spec: Spec) -> Budget:
    """The budget of a pool; in Shared one worker carries both classes and batch costs nothing."""
    shared = spec.topology == "Shared"
    mode = sharing(spec)
    if mode is not None and mode.mode == "Exclusive":
        return Budget(
            unit="GPUs", total=spec.accelerator.count, interactive=1, batch=0 if shared else 1
        )
    if mode is not None and mode.mode == "MIG":
        return Budget(
            unit="MIG slices",
            total=MIG_SLICES * spec.accelerator.count,
            interactive=mig_slices(spec, "interactive"),
            batch=0 if shared else mig_slices(spec, "batch"),
        )
    return _bytes(spec, shared)


def mig_slices(spec: Spec, name: ClassName) -> int:
    """Compute slices of a class's profile: 3 for 3g.40gb, 0 where none is declared."""
    profile = class_spec(spec, name).mig_profile
    return int(profile[0]) if profile else 0


def _bytes(spec: Spec, shared: bool) -> Budget:
    interactive, batch = spec.pools.interactive.vram, spec.pools.batch.vram
    return Budget(
        unit="bytes",
        total=spec.accelerator.count * (spec.accelerator.memory - headroom(spec)),
        interactive=interactive + batch if shared else interactive,
        batch=0 if shared else batch,
    )
