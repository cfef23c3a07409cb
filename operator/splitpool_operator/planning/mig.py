"""Does a MIG profile exist on a GPU, and how much of the GPU's geometry does it take?

A GPU has 7 compute slices and 8 memory slices; a profile takes 1, 2, 4 or 8 memory slices. Which
of them is read off the ratio of its nominal size to the GPU's memory; the bytes that a slice
really has are known to the cluster's capacity alone and are never taken from the name.
"""

import math
import re
from dataclasses import dataclass

COMPUTE_SLICES = 7
MEMORY_SLICES = 8
_GEOMETRIES = {(1, 1), (1, 2), (2, 2), (2, 4), (3, 4), (4, 4), (4, 8), (7, 8)}


class NoSuchProfile(ValueError):
    """The profile is not one of this GPU; the message says what was compared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """What one instance of a profile takes of a GPU."""

    compute: int
    memory: int


def slice_of(profile: str, memory: int) -> Slice:
    """The geometry of a profile such as 3g.40gb on a GPU with so many bytes."""
    match = re.match(r"([1-7])g\.([0-9]+)gb", profile)
    if match is None:
        raise NoSuchProfile(f"{profile} is no MIG profile; write one such as 3g.40gb")
    compute, nominal = int(match.group(1)), int(match.group(2))
    gibibytes = memory / 1024**3
    taken = 2 ** max(0, round(math.log2(MEMORY_SLICES * nominal / gibibytes)))
    if (compute, taken) not in _GEOMETRIES:
        raise NoSuchProfile(
            f"{profile} is {nominal} of {gibibytes:.0f} GiB with {compute} of 7 compute slices; no "
            "GPU of that memory has this profile: see nvidia-smi mig -lgip"
        )
    return Slice(compute=compute, memory=taken)


def most_beside(interactive: Slice, batch: Slice | None) -> list[int]:
    """The most batch slices beside x interactive ones on one GPU (see `packing`)."""
    result = []
    for count in range(COMPUTE_SLICES + 1):
        compute = COMPUTE_SLICES - count * interactive.compute
        memory = MEMORY_SLICES - count * interactive.memory
        if compute < 0 or memory < 0:
            break
        result.append(min(compute // batch.compute, memory // batch.memory) if batch else 0)
    return result
