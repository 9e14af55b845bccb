"""Keeps the memory that a training step frees for the next step.

By default glibc returns large freed blocks to the kernel, which zeroes them again page by page at the next step. For a
decoder on 256 tokens that is a fifth of the time of a step, more with several threads.
"""

import ctypes
from functools import cache

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # malloc.h
LARGEST_KEPT = 32 * 2**20  # bytes, glibc's largest threshold; to keep larger blocks, too, fragments memory


@cache
def keep_freed_memory() -> bool:
    """Keep freed blocks of up to 32 MiB in this process from now on; return False with another C library than glibc."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    return bool(mallopt(M_MMAP_THRESHOLD, LARGEST_KEPT)) and bool(mallopt(M_TRIM_THRESHOLD, -1))
