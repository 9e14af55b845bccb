"""Dropout with one probability per member and keyed random masks.

Library dropout is not used: compilers may reorder its random numbers, and it takes one probability for all members.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from trainers.random import Stream


@dataclass(frozen=True)
class Dropout:
    """Noise of one training step for M members, from the dropout stream of their S seeds. rate_M: float64 (M,).

    `active` is False where every rate is zero: a model may then leave the masks out.
    """

    stream: Stream
    index_M: Tensor | None
    rate_M: Tensor
    active: bool = True

    def keep(self, site: int, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        """Factors (M, *shape): 0 with the member's rate, else 1 / (1 - rate)."""
        bits = self._of_members(self.stream.bits(site, shape))
        rate = self.rate_M.reshape(-1, *[1] * len(shape))
        threshold = (rate * 2.0**32).to(torch.int64)
        scale = (1.0 / (1.0 - rate)).to(dtype)
        return torch.where(bits >= threshold, scale, torch.zeros((), dtype=dtype, device=bits.device))

    def integers(self, site: int, shape: tuple[int, ...], high: int) -> Tensor:
        """Random integers in [0, high), int64 (M, *shape)."""
        return self._of_members(self.stream.integers(site, shape, high))

    def __call__(self, x: Tensor, site: int) -> Tensor:
        """`x` (M, ...) with each entry dropped or scaled."""
        return x * self.keep(site, tuple(x.shape[1:]), x.dtype) if self.active else x

    def _of_members(self, values: Tensor) -> Tensor:
        return values if self.index_M is None else values[self.index_M]
