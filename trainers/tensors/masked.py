"""Largest entries and exponentials of some entries alone, the others masked by 0.0 and 1.0.

Masks are factors: on a CPU `where`, and exponentials of -inf, take tens of times as long as sums and products.
"""

import torch
from torch import Tensor

_FAR = 2.0**126  # takes a number below every other one, and is less than half of the largest float32
_LEAST = -80.0  # its exponential is still a normal float32; those of smaller numbers take long


def below_largest(values: Tensor, outside: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    """The largest entry where `outside` is 0, and the differences from it: of use there alone."""
    found = torch.sub(values, outside, alpha=_FAR)
    largest = found.amax(dim=dim, keepdim=True)
    return largest, found.sub_(largest)


def exponentials_(below: Tensor, times: Tensor) -> Tensor:
    """`times` the exponential of differences from the largest entry, in their place."""
    return below.clamp_(min=_LEAST).exp_().mul_(times)
