"""Memory for all weights, or for the whole cache, in one piece that huge pages can back.

A decode step reads every weight and much of the cache once. With pages of 4 KiB much of that time
goes into finding them: reading from memory is some 15 % faster from pages of 2 MiB, and a matrix
alone is too small to have any.
"""

import ctypes
import mmap
from contextlib import suppress

import torch

# Linux 5.14, <linux/mman.h>; Python's mmap has no name for it.
_POPULATE_WRITE = 23
_PIECE = 8 << 20


class Arena:
    """Zeros, handed out front to back and never taken back; resident once written, or committed."""

    def __init__(self, nbytes: int) -> None:
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
        self._memory = mmap.mmap(-1, max(nbytes, mmap.PAGESIZE), flags=flags)
        if hasattr(mmap, "MADV_HUGEPAGE"):
            with suppress(OSError):  # a kernel built without them
                self._memory.madvise(mmap.MADV_HUGEPAGE)
        self._taken = 0

    def commit(self) -> None:
        """Make all of it resident now, without keeping other threads from Python meanwhile.

        What a step is the first to write is zeroed within that step. Where the kernel cannot do it
        beforehand, that stays so.
        """
        libc = ctypes.CDLL(None)
        start = torch.frombuffer(self._memory, dtype=torch.uint8).data_ptr()
        for offset in range(0, len(self._memory), _PIECE):
            piece = min(_PIECE, len(self._memory) - offset)
            address, length = ctypes.c_void_p(start + offset), ctypes.c_size_t(piece)
            if libc.madvise(address, length, _POPULATE_WRITE):
                return

    def take(self, count: int, dtype: torch.dtype) -> torch.Tensor | None:
        """`count` elements that keep the arena alive, or None where it has no room for them."""
        offset, nbytes = self._taken, count * dtype.itemsize
        if offset + nbytes > len(self._memory):
            return None
        self._taken += nbytes
        return torch.frombuffer(self._memory, dtype=dtype, count=count, offset=offset)
