"""How does the heap stay small beside the quota while a model is loaded?

Weights, cache and the temporaries of reading them must not share the heap: the holes that those
leave between them stay resident, 45 MiB beside a model of 257.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from splitpool_serving import heap

LOADING_BYTES = 128 << 10
SERVING_BYTES = 32 << 20  # the most that glibc accepts


@contextmanager
def tidy() -> Iterator[None]:
    """Load within this block: it holds large blocks apart. Afterwards the temporaries of a step are
    reused instead of being mapped and zeroed in every step."""
    heap.keep_small(LOADING_BYTES)
    try:
        yield
    finally:
        heap.give_back()
        heap.reuse(SERVING_BYTES)
