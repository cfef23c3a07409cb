"""How do a thread's OpenMP helpers go when it has no more work for them?

Every thread that computes has helpers of its own, which stay. GNU's OpenMP lets waiting threads
spin only while there are no more threads than processors; with helpers that have nothing to do
counted too, those of the engine fell asleep between any two operations, and a decode step of one
sequence took half as long again.
"""

import ctypes
import os

_SOFT = 1  # omp_pause_soft: what is needed again comes back


def release() -> None:
    """End the idle helpers of the calling thread, where GNU's OpenMP is what runs."""
    try:
        loaded = ctypes.CDLL("libgomp.so.1", mode=os.RTLD_NOLOAD | os.RTLD_NOW)
    except OSError:
        return
    if hasattr(loaded, "omp_pause_resource_all"):
        loaded.omp_pause_resource_all(_SOFT)
