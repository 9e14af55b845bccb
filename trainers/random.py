"""Keyed counter-based random streams: Philox4x32-10 (Salmon et al., SC'11).

A stream is named by (seed, stream name, step); a draw within it by its `site`. Nothing is stored between
draws, so neither the pack, nor the order of draws, nor a restart changes a number. The generator is written in
torch integer operations: it runs on CPU and CUDA alike and compiles.

Key = seed (64 bits). Counter = (block, site, step, stream). Element i of a draw is word i // blocks of block
i % blocks.
Shapes: S seeds, then the shape asked for.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

STREAMS = {"init": 0, "data": 1, "dropout": 2, "eval": 3}
_MASK = 0xFFFFFFFF
_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_WEYL = (0x9E3779B9, 0xBB67AE85)
_SEQUENTIAL_DRAWS = 12  # permutations with at most this many entries are drawn one entry at a time


def philox4x32(
    counter: tuple[Tensor, Tensor, Tensor, Tensor], key: tuple[Tensor, Tensor]
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Ten rounds of Philox4x32 on int64 tensors that hold 32-bit words; shapes broadcast."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for turn in range(10):
        if turn:
            k0, k1 = (k0 + _WEYL[0]) & _MASK, (k1 + _WEYL[1]) & _MASK
        # The multipliers less 2^32 keep the products inside an int64. A product that overflows wraps to the right bits
        # in eager torch, but compiled C++ takes signed overflow as impossible and drops masks that are then needed.
        p0, p1 = c0 * (_MULTIPLIERS[0] - 2**32), c2 * (_MULTIPLIERS[1] - 2**32)
        c0, c1, c2, c3 = ((p1 >> 32) + c2) ^ c1 ^ k0, p1 & _MASK, ((p0 >> 32) + c0) ^ c3 ^ k1, p0 & _MASK
    return c0, c1, c2, c3


@dataclass(frozen=True)
class Stream:
    """The random numbers of S seeds in one named stream at one step: () int64, or (S,) with a step for each seed."""

    seeds_S: Tensor
    name: str
    step: Tensor

    def bits(self, site: int, shape: tuple[int, ...], rows: tuple[int, int] | None = None) -> Tensor:
        """Uniform integers in [0, 2^32), int64 (S, *shape); of the draw's `rows` (first, last + 1) alone, if given."""
        if rows is not None:
            return self._bits_of(rows, site, shape)
        count = math.prod(shape)
        blocks = -(-count // 4)
        seeds = self.seeds_S[:, None]
        # Inductor would carry constant multiples of an index in 32 bits; added to data, the index is an int64 like any.
        step = self.step[:, None] if self.step.dim() else self.step
        zero = step ^ step
        block = torch.arange(blocks, dtype=torch.int64, device=seeds.device)[None, :] + zero
        counter = (block, zero + site, step, zero + STREAMS[self.name])
        words = philox4x32(counter, (seeds & _MASK, (seeds >> 32) & _MASK))
        return torch.cat(words, dim=1)[:, :count].reshape(len(self.seeds_S), *shape)

    def _bits_of(self, rows: tuple[int, int], site: int, shape: tuple[int, ...]) -> Tensor:
        """Some rows of `bits`: each word is of the block and lane that it has in the whole draw."""
        each = math.prod(shape[1:])
        blocks = -(-shape[0] * each // 4)
        seeds = self.seeds_S[:, None]
        step = self.step[:, None] if self.step.dim() else self.step
        zero = step ^ step
        place = torch.arange(rows[0] * each, rows[1] * each, dtype=torch.int64, device=seeds.device)[None, :] + zero
        lane = place // blocks
        counter = (place - lane * blocks, zero + site, step, zero + STREAMS[self.name])
        found = torch.zeros_like(place)
        for number, words in enumerate(philox4x32(counter, (seeds & _MASK, (seeds >> 32) & _MASK))):
            found = torch.where(lane == number, words, found)
        return found.reshape(len(self.seeds_S), rows[1] - rows[0], *shape[1:])

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
            order = torch.argsort(self.bits(site, (batch, n)), dim=-1, stable=True)
            return order[..., :take]
        words = self.bits(site, (take, batch))
        drawn: list[Tensor] = []
        taken: list[Tensor] = []  # ascending
        for index in range(take):
            entry = (words[:, index] * (n - index)) >> 32
            for low in taken:  # the entry-th number that is not yet taken
                entry = entry + (entry >= low)
            drawn.append(entry)
            rest = entry
            for place, low in enumerate(taken):
                taken[place], rest = torch.minimum(low, rest), torch.maximum(low, rest)
            taken.append(rest)
        return torch.stack(drawn, dim=-1)
