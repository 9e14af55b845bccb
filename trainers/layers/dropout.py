"""Dropout with one probability per member and keyed random masks.

Library dropout is not used: compilers may reorder its random numbers, and it takes one probability for all members.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from trainers.random import Stream


@dataclass(frozen=True)
class Dropout:
    """Masks for M members from the dropout stream of their S seeds. rate_M: float64 (M,)."""

    stream: Stream
    index_M: Tensor | None
    rate_M: Tensor

    def keep(self, site: int, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        """Factors (M, *shape): 0 with the member's rate, else 1 / (1 - rate)."""
        bits = self.stream.bits(site, shape)
        if self.index_M is not None:
            bits = bits[self.index_M]
        rate = self.rate_M.reshape(-1, *[1] * len(shape))
        threshold = (rate * 2.0**32).to(torch.int64)
        return torch.where(
            bits >= threshold, (1.0 / (1.0 - rate)).to(dtype), torch.zeros((), dtype=dtype, device=bits.device)
        )

    def __call__(self, x: Tensor, site: int) -> Tensor:
        """`x` (M, ...) with each entry dropped or scaled."""
        return x * self.keep(site, tuple(x.shape[1:]), x.dtype)
