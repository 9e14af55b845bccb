"""Maxima and exponentials of the unmasked entries of a tensor.

Masks are factors 0.0 and 1.0: on a CPU `where`, and exponentials of -inf, take tens of times as long as products.
"""

import torch
from torch import Tensor

_FAR = 2.0**126  # subtracted from masked entries, so that none is the maximum; below half of the largest float32
_LEAST = -80.0  # its exponential is still a normal float32; subnormal results are slow


def subtract_largest(values: Tensor, outside: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    """Return the maximum where the mask `outside` is 0, and values minus it; meaningless where `outside` is 1."""
    below = torch.sub(values, outside, alpha=_FAR)
    largest = below.amax(dim=dim, keepdim=True)
    return largest, below.sub_(largest)


def weighted_exp_(below: Tensor, times: Tensor) -> Tensor:
    """Return `times` * exp(below), in place of `below`: values minus their maximum."""
    return below.clamp_(min=_LEAST).exp_().mul_(times)
