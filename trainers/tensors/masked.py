"""Maxima and exponentials of the unmasked entries of a tensor.

Masks are factors 0.0 and 1.0: on a CPU `where`, and exponentials of -inf, take tens of times as long as products.
"""

import torch
from torch import Tensor

_MASK_OFFSET = 2.0**126  # subtracted from masked entries, so that none is the maximum
_LOWEST_EXPONENT = -80.0  # exp of it is a normal float32; subnormal results are slow


def subtract_largest(values: Tensor, outside: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    """Return the maximum along `dim` of the entries where `outside` is 0, and values minus this maximum.

    The differences are meaningless where `outside` is 1.
    """
    differences = torch.sub(values, outside, alpha=_MASK_OFFSET)
    largest = differences.amax(dim=dim, keepdim=True)
    return largest, differences.sub_(largest)


def weighted_exp_(differences: Tensor, factors: Tensor) -> Tensor:
    """Return `factors` * exp(differences), computed in place; differences: values minus their maximum."""
    return differences.clamp_(min=_LOWEST_EXPONENT).exp_().mul_(factors)
