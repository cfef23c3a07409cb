"""Calls of the C++ operations recorded once and replayed by one call.

A step of a few decode rows takes a CPU milliseconds, and saying its two hundred operations from
Python one more. What they are depends on the number of rows only, so it is said once for each.
"""

from __future__ import annotations

import ctypes
import struct
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

Forward = Callable[[], torch.Tensor]

FUNCTIONS = (
    "embed",
    "linear",
    "gated",
    "add_rms_norm",
    "rope_and_store",
    "paged_attention",
    "int8_embed",
    "int8_linear",
    "int8_gated",
    "int8_add_rms_norm",
    "int8_paged_attention",
)
"""In the order of the library's switch; see FOR_TAPE in cpu.cpp."""
_LINEARS = [FUNCTIONS.index(f"{of}{name}") for of in ("", "int8_") for name in ("linear", "gated")]
_ATTENTION = [FUNCTIONS.index(f"{of}paged_attention") for of in ("", "int8_")]
_MOST_ARGUMENTS = 13
_UNUSED = 2
"""References to a tensor of the scratch that nobody uses: the list's, and that of asking."""


class Call(ctypes.Structure):
    """As in native/tape.h."""

    _fields_ = (("function", ctypes.c_int64), ("arguments", ctypes.c_int64 * _MOST_ARGUMENTS))


class Scratch:
    """Tensors for the results of operations, of up to so many rows, each used again and again.

    One tape runs at a time, so all tapes share them.
    """

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


@dataclass(slots=True)
class Tape:
    """Recorded calls for one dtype. `scratch` gives the results that they write to."""

    scratch: Scratch
    calls: list[Call] = field(default_factory=list)

    def record(self, function: str, arguments: Sequence[int | float | None]) -> None:
        """One call more; None is a null pointer."""
        raw = [_raw(argument) for argument in arguments]
        self.calls.append(Call(FUNCTIONS.index(function), (ctypes.c_int64 * _MOST_ARGUMENTS)(*raw)))


class Recorder:
    """Stands for a library's functions of one dtype: records what it is called with."""

    def __init__(self, tape: Tape) -> None:
        self._tape = tape

    def __getattr__(self, function: str) -> Any:
        return lambda *arguments: self._tape.record(function, arguments)


class Replayed:
    """A tape as the library runs it."""

    def __init__(self, library: ctypes.CDLL, dtype: str, tape: Tape, result: torch.Tensor) -> None:
        """result: what the last call leaves."""
        self.linears = self.attention = 0.0
        """Seconds of the last run."""
        self.watch: Callable[[Replayed], None] | None = None
        """Called after each run."""
        self._run = getattr(library, f"run_tape_{dtype}")
        self._run.argtypes = (ctypes.c_void_p, ctypes.c_long, ctypes.c_void_p)
        self._run.restype = None
        self._count = len(tape.calls)
        self._calls = (Call * self._count)(*tape.calls)
        self._seconds = (ctypes.c_double * len(FUNCTIONS))()
        self._result = result.view(result.shape)  # holds no place of the scratch

    def __call__(self) -> torch.Tensor:
        """The result, until any tape of this scratch runs again."""
        ctypes.memset(self._seconds, 0, ctypes.sizeof(self._seconds))
        self._run(self._calls, self._count, self._seconds)
        self.linears = sum(self._seconds[place] for place in _LINEARS)
        self.attention = sum(self._seconds[place] for place in _ATTENTION)
        if self.watch is not None:
            self.watch(self)
        return self._result


def _raw(argument: int | float | None) -> int:
    if isinstance(argument, float):
        return int.from_bytes(struct.pack("<f", argument), "little")
    return argument or 0
