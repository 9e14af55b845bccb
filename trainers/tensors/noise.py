"""Random numbers of one forward pass: dropout with a rate per member, and whatever else models draw.

torch's dropout is not used: compilers may reorder its random numbers, and it takes one rate for all members.
"""

from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import Tensor

from trainers.random import Stream
from trainers.tensors.precision import upcast

_SITES = 2**20  # more than a model uses in its first 128 chunks of queries
_PARTS = 2**8  # batches of all passes of a step; sites of later chunks of queries follow them, below 2^32
_BATCHES = 2**4  # batches of one pass


@dataclass(frozen=True, eq=False)  # torch 2.11 asks for the hash before the fields are set
class Noise:
    """The noise of a pass of M members, from a stream of their S seeds.

    rate_M: dropout rates, float64 (M,); None means no dropout. training: False in evaluation, which has no dropout;
    only encodings that are random by definition draw then. first, total: the rows of the pass start at row `first` of
    a batch of `total` rows and get the numbers of a pass over all. part: the number of the batch in its step.
    """

    stream: Stream
    index_M: Tensor | None
    rate_M: Tensor | None = None
    training: bool = True
    first: int = 0
    total: int | None = None
    part: int = 0

    def of_pass(self, draw: int) -> Self:
        """Return the noise of another pass over the same rows; 0 is this one. Raises ValueError beyond 15."""
        if not 0 <= draw < _PARTS // _BATCHES:
            raise ValueError(f"draw is {draw}; allowed: 0 to {_PARTS // _BATCHES - 1}")
        if draw and self.part >= _BATCHES:
            raise ValueError(f"several draws of dropout need a step of at most {_BATCHES} batches")
        return replace(self, part=self.part + draw * _BATCHES) if draw else self

    def dropout_factors(self, site: int, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        """Return factors (M, *shape): 0 with the member's rate, else 1 / (1 - rate). shape[0] is the number of rows."""
        assert self.rate_M is not None
        bits = self._select_members(self._bits(site, shape))
        rate = self.rate_M.reshape(-1, *[1] * len(shape))
        threshold = (rate * 2.0**32).to(torch.int64)
        scale = (1.0 / (1.0 - rate)).to(dtype)
        return torch.where(bits >= threshold, scale, torch.zeros((), dtype=dtype, device=bits.device))

    def integers(self, site: int, shape: tuple[int, ...], high: int, *, shared: bool = False) -> Tensor:
        """Return random integers in [0, high), int64 (M, *shape); shape[0] is rows, unless all rows share the draw."""
        bits = self.stream.bits(self._site(site), shape) if shared else self._bits(site, shape)
        return self._select_members((bits * high) >> 32)

    def uniform(self, site: int, shape: tuple[int, ...]) -> Tensor:
        """Return uniform numbers in (0, 1) with 32 bits, float64 (M, *shape); shape[0] is the number of rows."""
        return self._select_members((self._bits(site, shape).double() + 0.5) * 2.0**-32)

    def __call__(self, x: Tensor, site: int) -> Tensor:
        """Apply dropout to `x` (M, B, ...)."""
        return (
            x
            if self.rate_M is None
            else (x * self.dropout_factors(site, tuple(x.shape[1:]), upcast(x.dtype))).to(x.dtype)
        )

    def _bits(self, site: int, shape: tuple[int, ...]) -> Tensor:
        site = self._site(site)
        if self.total is None:
            return self.stream.bits(site, shape)
        return self.stream.bits(site, (self.total, *shape[1:]), rows=(self.first, self.first + shape[0]))

    def _site(self, site: int) -> int:
        """Return the site in the stream, distinct for every part of the step."""
        beyond, site = divmod(site, _SITES)
        if beyond and (self.part >= _PARTS or beyond * _PARTS * _SITES >= 2**32):
            raise ValueError("a row is too long for distinct random numbers; allowed: fewer than 262,144 tokens")
        return site + (self.part + beyond * _PARTS) * _SITES

    def _select_members(self, values: Tensor) -> Tensor:
        return values if self.index_M is None else values[self.index_M]
