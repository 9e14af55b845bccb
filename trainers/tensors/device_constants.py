"""Constant tensors, copied to their device once: a copy in every call would make the host wait for the GPU."""

from functools import cache
from typing import Any

import torch
from torch import Tensor


def make_constant(values: tuple[Any, ...], device: torch.device, dtype: torch.dtype = torch.int64) -> Tensor:
    """Return a cached tensor with the numbers of nested tuples; it must not be changed.

    A compiled program has its own copy. Fractions need a `dtype`: it does not follow from `values`, because 1 and 1.0
    are the same key of the cache.
    """
    if torch.compiler.is_compiling():
        return torch.tensor(values, dtype=dtype, device=device)
    return _copy_cached(values, device, dtype)


@cache  # without a limit: a CUDA graph reads the tensors it was captured with
def _copy_cached(values: tuple[Any, ...], device: torch.device, dtype: torch.dtype) -> Tensor:
    """Return the numbers as a tensor on the device, copied there by the first call."""
    return torch.tensor(values, dtype=dtype, device=device)
