"""Random numbers of a forward pass: dropout with a rate for each member, and other draws of models.

torch's dropout is not used: compilers may reorder its random numbers, and it has a single rate for all members.
"""

from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import Tensor

from trainers.random.stream import Stream, scale_words
from trainers.tensors.precision import upcast

_SITES_PER_BATCH = 2**20  # sites of a batch: more than a model uses in its first 128 chunks of queries
_MAX_PARTS = 2**8  # batches of all passes of a step; sites of later chunks of queries follow, below 2^32
_MAX_BATCHES = 2**4  # batches of a pass


@dataclass(frozen=True, eq=False)  # torch 2.11 asks for the hash before the fields are set
class Noise:
    """The noise of a pass of M members, from a stream of their S seeds.

    seed_index_M: the index of each member's seed; None if members and seeds are the same. rate_M: dropout rates,
    float64 (M,); None means no dropout. training: False in evaluation, where only encodings that are random by
    definition draw. first, total: the rows of the pass are a slice from row `first` of a batch of `total` rows, and get
    the same numbers as in a pass over the full batch. part: the number of the batch in its step.
    """

    stream: Stream
    seed_index_M: Tensor | None
    rate_M: Tensor | None = None
    training: bool = True
    first: int = 0
    total: int | None = None
    part: int = 0

    def for_pass(self, draw: int) -> Self:
        """Return the noise of pass number `draw` over the same rows; 0 is this pass. Raises ValueError beyond 15."""
        if not 0 <= draw < _MAX_PARTS // _MAX_BATCHES:
            raise ValueError(f"draw is {draw}; allowed: 0 to {_MAX_PARTS // _MAX_BATCHES - 1}")
        if draw and self.part >= _MAX_BATCHES:
            raise ValueError(f"draw is {draw} in a step of more than {_MAX_BATCHES} batches; allowed: 0")
        return replace(self, part=self.part + draw * _MAX_BATCHES) if draw else self

    def dropout_factors(self, site: int, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        """Return factors (M, *shape): 0 with the member's rate, else 1 / (1 - rate). shape[0]: the number of rows."""
        assert self.rate_M is not None
        bits = self._select_members(self._draw_bits(site, shape))
        rate = self.rate_M.reshape(-1, *[1] * len(shape))
        # A comparison of integers gives the same result on every device.
        threshold = (rate * 2.0**32).to(torch.int64)
        scale = (1.0 / (1.0 - rate)).to(dtype)
        return torch.where(bits >= threshold, scale, torch.zeros((), dtype=dtype, device=bits.device))

    def integers(self, site: int, shape: tuple[int, ...], high: int, *, shared: bool = False) -> Tensor:
        """Return random integers in [0, high), int64 (M, *shape).

        shape[0]: the number of rows, or any number for draws that all rows share (`shared`). Raises ValueError for
        `high` above 2^31.
        """
        bits = self.stream.bits(self._compute_site(site), shape) if shared else self._draw_bits(site, shape)
        return self._select_members(scale_words(bits, high))

    def uniform(self, site: int, shape: tuple[int, ...]) -> Tensor:
        """Return uniform numbers in (0, 1) with 32 bits, float64 (M, *shape); shape[0]: the number of rows."""
        return self._select_members((self._draw_bits(site, shape).double() + 0.5) * 2.0**-32)

    def __call__(self, x: Tensor, site: int) -> Tensor:
        """Return `x` (M, B, ...) with dropout."""
        if self.rate_M is None:
            return x
        return (x * self.dropout_factors(site, tuple(x.shape[1:]), upcast(x.dtype))).to(x.dtype)

    def _draw_bits(self, site: int, shape: tuple[int, ...]) -> Tensor:
        """Return the random bits of the rows of this pass, int64 (S, *shape)."""
        site = self._compute_site(site)
        if self.total is None:
            return self.stream.bits(site, shape)

        # A slice of rows draws its part of the batch, so the numbers do not depend on how a batch is sliced.
        return self.stream.bits(site, (self.total, *shape[1:]), rows=(self.first, self.first + shape[0]))

    def _compute_site(self, site: int) -> int:
        """Return the site in the stream, distinct for every part of a step. Raises ValueError if a row is too long."""
        overflow, site = divmod(site, _SITES_PER_BATCH)
        if overflow and self.part >= _MAX_PARTS:
            raise ValueError(f"batch {self.part} of a step with rows this long; allowed: fewer than {_MAX_PARTS}")
        if overflow * _MAX_PARTS * _SITES_PER_BATCH >= 2**32:
            raise ValueError("too many tokens in a row for distinct random numbers; allowed: fewer than 262,144")
        return site + (self.part + overflow * _MAX_PARTS) * _SITES_PER_BATCH

    def _select_members(self, values: Tensor) -> Tensor:
        """Return values of seeds (S, ...) for every member, (M, ...)."""
        return values if self.seed_index_M is None else values[self.seed_index_M]
