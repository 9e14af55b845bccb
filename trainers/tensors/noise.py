"""Random numbers of one pass: dropout with one probability per member, and what models draw besides.

Library dropout is not used: compilers may reorder its random numbers, and it takes one probability for all members.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from trainers.random import Stream
from trainers.tensors.precision import wide

_SITES = 2**20  # more than a model has in its first 128 chunks of queries
_PARTS = 2**8  # of a step, where rows have more chunks: these come after the parts, and all sites are below 2^32


@dataclass(frozen=True, eq=False)  # torch 2.11 asks for the hash of one that it has not filled yet
class Noise:
    """Noise of a pass of M members, from a stream of their S seeds. rate_M: float64 (M,); None: nothing is dropped.

    `training` is False in evaluation: nothing is dropped then, and only what is random by definition may draw. A pass
    over some rows of a batch of `total`, beginning with row `first`, has the noise of these rows of the whole batch;
    `part` tells apart batches of one step.
    """

    stream: Stream
    index_M: Tensor | None
    rate_M: Tensor | None = None
    training: bool = True
    first: int = 0
    total: int | None = None
    part: int = 0

    def keep(self, site: int, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        """Factors (M, *shape): 0 with the member's rate, else 1 / (1 - rate). The first dimension of shape is rows."""
        assert self.rate_M is not None
        bits = self._of_members(self._bits(site, shape))
        rate = self.rate_M.reshape(-1, *[1] * len(shape))
        threshold = (rate * 2.0**32).to(torch.int64)
        scale = (1.0 / (1.0 - rate)).to(dtype)
        return torch.where(bits >= threshold, scale, torch.zeros((), dtype=dtype, device=bits.device))

    def integers(self, site: int, shape: tuple[int, ...], high: int, *, shared: bool = False) -> Tensor:
        """Random integers in [0, high), int64 (M, *shape); its first dimension is rows, unless all rows share them."""
        bits = self.stream.bits(self._site(site), shape) if shared else self._bits(site, shape)
        return self._of_members((bits * high) >> 32)

    def uniform(self, site: int, shape: tuple[int, ...]) -> Tensor:
        """Uniform in (0, 1) with 32 bits, float64 (M, *shape); its first dimension is rows."""
        return self._of_members((self._bits(site, shape).double() + 0.5) * 2.0**-32)

    def __call__(self, x: Tensor, site: int) -> Tensor:
        """`x` (M, B, ...) with each entry dropped or scaled."""
        return x if self.rate_M is None else (x * self.keep(site, tuple(x.shape[1:]), wide(x.dtype))).to(x.dtype)

    def _bits(self, site: int, shape: tuple[int, ...]) -> Tensor:
        site = self._site(site)
        if self.total is None:
            return self.stream.bits(site, shape)
        return self.stream.bits(site, (self.total, *shape[1:]), rows=(self.first, self.first + shape[0]))

    def _site(self, site: int) -> int:
        """The site of the stream: no part of the step has another's."""
        beyond, site = divmod(site, _SITES)
        if beyond and (self.part >= _PARTS or beyond * _PARTS * _SITES >= 2**32):
            raise ValueError("rows are too long for random numbers of their own: use fewer than 262,144 tokens")
        return site + (self.part + beyond * _PARTS) * _SITES

    def _of_members(self, values: Tensor) -> Tensor:
        return values if self.index_M is None else values[self.index_M]
