"""How is memory that is no longer used kept out of the heap, or given back? By glibc's own means.

glibc raises the size from which a block gets a mapping of its own whenever a larger one is freed.
Then large blocks share the heap with small ones, and the holes between them stay resident. Other C
libraries than glibc are left as they are.
"""

import ctypes

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8  # <malloc.h>
# Each thread's arena keeps holes of its own.
_ARENAS = 2


def keep_small(mapped_bytes: int) -> None:
    """From this size on blocks get a mapping of their own, which goes back when they are freed.
    Call it before threads are made: then these share few arenas."""
    _set(_ARENA_MAX, _ARENAS)
    _set(_MMAP_THRESHOLD, mapped_bytes)


def reuse(kept_bytes: int) -> None:
    """Blocks up to this size are kept in the heap for the next ones, not mapped and zeroed anew."""
    _set(_MMAP_THRESHOLD, kept_bytes)
    _set(_TRIM_THRESHOLD, 2 * kept_bytes)


def give_back() -> None:
    """Return what is free in the heap to the system."""
    libc = ctypes.CDLL(None)
    if hasattr(libc, "malloc_trim"):
        libc.malloc_trim(0)


def _set(option: int, value: int) -> None:
    libc = ctypes.CDLL(None)
    if hasattr(libc, "mallopt"):
        libc.mallopt(option, value)
