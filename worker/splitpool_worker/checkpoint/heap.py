"""How the heap stays small beside the quota: while a model is loaded, and after large requests.

glibc raises the size from which a block gets a mapping of its own whenever a larger one is freed.
Then weights, cache and the temporaries of reading them share the heap, and the holes that those
leave between them stay resident: 45 MiB beside a model of 257. Held low while a model is loaded,
the threshold keeps them apart; held high afterwards, it lets the temporaries of a step be reused
instead of being mapped and zeroed in every step.
"""

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_ARENA_MAX = -1, -3, -8  # <malloc.h>
LOADING_BYTES = 128 << 10
SERVING_BYTES = 32 << 20  # the most that glibc accepts
# Each keeps holes of its own, so that one for every thread would be too many.
ARENAS = 2


@contextmanager
def tidy() -> Iterator[None]:
    """Load within this block. Other C libraries than glibc are left as they are."""
    libc = ctypes.CDLL(None)
    if not hasattr(libc, "mallopt") or not hasattr(libc, "malloc_trim"):
        yield
        return
    libc.mallopt(M_ARENA_MAX, ARENAS)
    libc.mallopt(M_MMAP_THRESHOLD, LOADING_BYTES)
    try:
        yield
    finally:
        libc.malloc_trim(0)
        libc.mallopt(M_MMAP_THRESHOLD, SERVING_BYTES)
        libc.mallopt(M_TRIM_THRESHOLD, 2 * SERVING_BYTES)


def give_back() -> None:
    """Return what is free in the heap to the system."""
    libc = ctypes.CDLL(None)
    if hasattr(libc, "malloc_trim"):
        libc.malloc_trim(0)
