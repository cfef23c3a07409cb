"""Calls of the C++ operations recorded once and replayed by one call.

A step of a few rows takes a CPU milliseconds, and saying its two hundred operations from Python one
more; and whenever an operation returns to Python, it waits there for the other threads. What the
operations are depends on the step's sizes only, so they are recorded once and the sizes filled in.
"""

from __future__ import annotations

import ctypes
import struct
import sys
from array import array
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass, field
from typing import Any

import numpy as np
import torch

FUNCTIONS = (
    "embed",
    "linear",
    "gated",
    "add_rms_norm",
    "rope_and_store",
    "paged_attention",
    "select",
    "int8_embed",
    "int8_linear",
    "int8_gated",
    "int8_add_rms_norm",
    "int8_paged_attention",
    "logits",
    "int8_logits",
    "best",
)
"""In the order of the library's switch; see FOR_TAPE in cpu.cpp."""
_LINEARS = [
    FUNCTIONS.index(f"{of}{name}") for of in ("", "int8_") for name in ("linear", "gated", "logits")
]
_ATTENTION = [FUNCTIONS.index(f"{of}paged_attention") for of in ("", "int8_")]
_PARTS = _LINEARS + _ATTENTION
_MOST_ARGUMENTS = 13
_UNUSED = 2
"""References to a tensor of the scratch that nobody uses: the list's, and that of asking."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """How many of each there are in a step."""

    rows: int
    sequences: int
    sampled: int
    """Rows whose logits are wanted."""


Results = tuple[torch.Tensor, ...]
Forward = Callable[[Sizes], Results]
"""A pass over as many rows and sequences as that; of the sampled rows, the results."""

_EXAMPLES = (Sizes(rows=3, sequences=2, sampled=1), Sizes(rows=6, sequences=5, sampled=4))
"""Steps that are recorded: what differs between them are the sizes."""


class Scratch:
    """Tensors for the results of operations, of up to so many rows, each used again and again."""

    def __init__(self, most_rows: int) -> None:
        self.most_rows = most_rows
        self._bases: dict[tuple[int, torch.dtype], list[torch.Tensor]] = {}
        self._given: dict[tuple[int, torch.dtype], list[torch.Tensor]] = {}

    def take(self, rows: int, columns: int, dtype: torch.dtype) -> torch.Tensor:
        """[rows, columns] in memory that no tensor given before and still held has."""
        bases = self._bases.setdefault((columns, dtype), [])
        given = self._given.setdefault((columns, dtype), [])
        for place in range(len(given)):
            if sys.getrefcount(given[place]) <= _UNUSED:
                given[place] = bases[place][:rows]
                return given[place]
        bases.append(torch.empty((self.most_rows, columns), dtype=dtype))
        given.append(bases[-1][:rows])
        return given[-1]

    def whole(self, taken: torch.Tensor) -> torch.Tensor:
        """All rows of the memory that a tensor was taken from; holds no place of it."""
        return taken.as_strided((self.most_rows, taken.shape[1]), taken.stride())


@dataclass(slots=True)
class Tape:
    """Recorded calls for one dtype. `scratch` gives the results that they write to."""

    scratch: Scratch
    calls: list[list[int]] = field(default_factory=list)
    """Each a function's place and its arguments, as in native/tape.h."""

    def record(self, function: str, arguments: Sequence[int | float | None]) -> None:
        """One call more; None is a null pointer."""
        raw = [_raw(argument) for argument in arguments]
        unused = [0] * (_MOST_ARGUMENTS - len(raw))
        self.calls.append([FUNCTIONS.index(function), *raw, *unused])


class Recorder:
    """Stands for a library's functions of one dtype: records what it is called with."""

    def __init__(self, tape: Tape) -> None:
        self._tape = tape

    def __getattr__(self, function: str) -> Any:
        return lambda *arguments: self._tape.record(function, arguments)


class Replayed:
    """A recorded pass as the library runs it."""

    def __init__(
        self,
        library: ctypes.CDLL,
        dtype: str,
        record: Callable[[Sizes], tuple[Tape, Results]],
    ) -> None:
        """`record` makes a tape of a pass of such sizes and tells where its results lie.

        Raises ValueError where the pass depends on anything but the sizes.
        """
        self.linears = self.attention = 0.0
        """Seconds of the last run."""
        self.watch: Callable[[Replayed], None] | None = None
        """Called after each run."""
        self._run = getattr(library, f"run_tape_{dtype}")
        self._run.argtypes = (ctypes.c_void_p, ctypes.c_long) * 2 + (ctypes.c_void_p,) * 2
        self._run.restype = None
        tape, results = record(_EXAMPLES[0])
        self._scratch = tape.scratch  # which the calls write to
        self._results = tuple(map(self._scratch.whole, results))
        self._of_sampled: dict[int, Results] = {}
        del results  # their places are to be the second tape's, too
        self._calls = np.array(tape.calls, dtype=np.int64)
        self._places = _differences(
            self._calls, np.array(record(_EXAMPLES[1])[0].calls, dtype=np.int64)
        )
        self._sizes = array("q", astuple(_EXAMPLES[0]))
        self._seconds = array("d", [0.0] * len(FUNCTIONS))
        self._arguments = (
            *(self._calls.ctypes.data, len(self._calls)),
            *(self._places.ctypes.data, len(self._places)),
            *(self._sizes.buffer_info()[0], self._seconds.buffer_info()[0]),
        )

    def __call__(self, sizes: Sizes) -> Results:
        """The results, until it runs again."""
        # Every step comes by here, on caches that are full of weights: little is done, and simply.
        told, seconds = self._sizes, self._seconds
        told[0], told[1], told[2] = sizes.rows, sizes.sequences, sizes.sampled
        for each in _PARTS:
            seconds[each] = 0.0
        self._run(*self._arguments)
        self.linears = sum([seconds[each] for each in _LINEARS])
        self.attention = sum([seconds[each] for each in _ATTENTION])
        if self.watch is not None:
            self.watch(self)
        found = self._of_sampled.get(sizes.sampled)
        if found is None:
            found = tuple(whole[: sizes.sampled] for whole in self._results)
            self._of_sampled[sizes.sampled] = found
        return found


def _differences(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Where sizes of a step stand among the calls: [places, 2], each a flat index and a size's."""
    if first.shape != second.shape:
        raise ValueError("the operations of a step depend on its sizes")
    differs = first != second
    found = [
        np.flatnonzero(differs & (first == one) & (second == other))
        for one, other in zip(*map(astuple, _EXAMPLES), strict=True)
    ]
    if sum(map(len, found)) != differs.sum():
        raise ValueError("an argument of a step's operations depends on more than one size")
    return np.array(
        [(place, size) for size, places in enumerate(found) for place in places], dtype=np.int64
    )


def _raw(argument: int | float | None) -> int:
    if isinstance(argument, float):
        return int.from_bytes(struct.pack("<f", argument), "little")
    return argument or 0
