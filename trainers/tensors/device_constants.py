"""Numbers that are needed as a tensor, copied to their device once: with a copy in each call the host would wait."""

from functools import cache
from typing import Any

import torch
from torch import Tensor


def constant(values: tuple[Any, ...], device: torch.device, dtype: torch.dtype = torch.int64) -> Tensor:
    """A tensor of nested tuples of numbers, which is not to be changed; a compiled program has it as its own.

    The type does not follow from the values: 1 and 1.0 are one key of what is kept.
    """
    if torch.compiler.is_compiling():
        return torch.tensor(values, dtype=dtype, device=device)
    return _kept(values, device, dtype)


@cache  # without a limit: a recorded step reads what it was recorded with
def _kept(values: tuple[Any, ...], device: torch.device, dtype: torch.dtype) -> Tensor:
    return torch.tensor(values, dtype=dtype, device=device)
