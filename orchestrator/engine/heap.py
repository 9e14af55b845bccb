"""Keep the memory that a training step frees for the next step.

By default glibc returns large freed blocks to the kernel, which zeroes them again page by page at the next step. For a
decoder on 256 tokens this takes a fifth of a step, more with several threads.
"""

import ctypes
from functools import cache

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # malloc.h
MAX_KEPT_BYTES = 32 * 2**20  # glibc's largest threshold; keeping larger blocks fragments memory


@cache
def keep_freed_memory() -> bool:
    """Keep freed blocks of up to 32 MiB in this process from now on; return False with another C library than glibc."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    # Both thresholds are needed: large blocks must come from the heap, and the heap must never shrink (-1).
    return bool(mallopt(M_MMAP_THRESHOLD, MAX_KEPT_BYTES)) and bool(mallopt(M_TRIM_THRESHOLD, -1))
