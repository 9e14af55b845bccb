"""A stream of random numbers, named by (seed, stream name, step); a draw within it is named by its `site`.

Nothing is stored between draws, so neither the pack, nor the order of draws, nor a restart changes a number.

Key = seed (64 bits). Counter = (block, site, step, stream). Element i of a draw is word i // blocks of block
i % blocks.
Shapes: S seeds, then the shape asked for.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from trainers.random import draws

STREAMS = {"init": 0, "data": 1, "dropout": 2, "eval": 3, "validation": 4}
_SEQUENTIAL_DRAWS = 12  # permutations with at most this many entries are drawn one entry at a time


@dataclass(frozen=True)
class Stream:
    """The random numbers of S seeds in one named stream, at one step () or at a step for each seed (S,), int64."""

    seeds_S: Tensor
    name: str
    step: Tensor

    def bits(self, site: int, shape: tuple[int, ...], rows: tuple[int, int] | None = None) -> Tensor:
        """Uniform integers in [0, 2^32), int64 (S, *shape); of the draw's `rows` (first, last + 1) alone, if given."""
        count, part = math.prod(shape), None
        if rows is not None:
            each = math.prod(shape[1:])
            part, shape = (rows[0] * each, rows[1] * each), (rows[1] - rows[0], *shape[1:])
        found = draws.words(self.seeds_S, self.step, STREAMS[self.name], site, count, part)
        return found.reshape(len(self.seeds_S), *shape)

    def uniform(self, site: int, shape: tuple[int, ...]) -> Tensor:
        """Uniform in [0, 1) with 24 bits, float32 (S, *shape)."""
        return (self.bits(site, shape) >> 8).to(torch.float32) * 2.0**-24

    def normal(self, site: int, shape: tuple[int, ...]) -> Tensor:
        """Standard normal by Box-Muller in float64, rounded to float32, (S, *shape)."""
        pairs = self.bits(site, (2, math.prod(shape))).to(torch.float64)
        radius = torch.sqrt(-2.0 * torch.log((pairs[:, 0] + 1.0) * 2.0**-32))
        angle = (2.0 * math.pi * 2.0**-32) * pairs[:, 1]
        return (radius * torch.cos(angle)).to(torch.float32).reshape(len(self.seeds_S), *shape)

    def integers(self, site: int, shape: tuple[int, ...], high: int) -> Tensor:
        """Integers in [0, high), int64 (S, *shape); each probability is 1 / high up to a relative high / 2^32."""
        return (self.bits(site, shape) * high) >> 32

    def permutations(self, site: int, batch: int, n: int, take: int) -> Tensor:
        """The first `take` entries of `batch` random permutations of 0..n-1, int64 (S, batch, take)."""
        if take > _SEQUENTIAL_DRAWS:
            return draws.order(self.bits(site, (batch, n)), take)
        return draws.sequential(self.bits(site, (take, batch)), n)
