"""How does memory that a large body took go back to the system? By glibc's own means."""

import ctypes

_ARENA_MAX, _MMAP_THRESHOLD = -8, -3  # <malloc.h>
# Each thread's arena keeps holes of its own.
_ARENAS = 2
# Blocks from this size on get a mapping of their own, which goes back when they are freed. Unset,
# glibc raises the size whenever a larger block is freed, until bodies lie in the heap.
_MAPPED_BYTES = 256 * 1024


def keep_small() -> None:
    """Before threads are made. Other C libraries than glibc are left as they are."""
    libc = ctypes.CDLL(None)
    if hasattr(libc, "mallopt"):
        libc.mallopt(_ARENA_MAX, _ARENAS)
        libc.mallopt(_MMAP_THRESHOLD, _MAPPED_BYTES)


def give_back() -> None:
    """Returns what is free in the heap."""
    libc = ctypes.CDLL(None)
    if hasattr(libc, "malloc_trim"):
        libc.malloc_trim(0)
