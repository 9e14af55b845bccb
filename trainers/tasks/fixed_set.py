"""A fixed training set that is never stored: sample i depends on (seed, i), and a keyed permutation orders them.

The random words of sample i are the words of a data stream at step i, at sites that no stream uses (top bit set).
Every epoch visits each sample once, in the order of a swap-or-not shuffle (Hoang, Morris, Rogaway, CRYPTO'12), a
bijection of any N that can be computed for single elements.
Shapes: S seeds, B rows.
"""

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from trainers.random import STREAMS, Stream, philox4x32

_MASK = 0xFFFFFFFF
_FIXED_SET_BIT = 1 << 31  # bit of every site of a fixed set
_ORDER_SITE = _FIXED_SET_BIT - 1  # the site of the shuffle's keys
_SHUFFLE_ROUNDS = 24


class Draws(Protocol):
    """The source of a batch's random words: a Stream, or a fixed set."""

    def bits(self, site: int, shape: tuple[int, ...]) -> Tensor:
        """Return uniform integers in [0, 2^32), int64 (S, *shape); the first dimension of shape is B."""


@dataclass(frozen=True)
class FixedSet:
    """The random words of samples of a fixed training set, int64 indices (S, B)."""

    seeds_S: Tensor
    index_SB: Tensor

    def bits(self, site: int, shape: tuple[int, ...]) -> Tensor:
        """Return uniform integers in [0, 2^32), int64 (S, *shape); a row depends on its seed and index alone."""
        count = 1
        for size in shape[1:]:
            count *= size
        words = _draw_words(self.seeds_S, self.index_SB, site, -(-count // 4))
        return words[..., :count].reshape(len(self.seeds_S), *shape)


def make_training_draws(stream: Stream, batch: int, size: int | None) -> Draws:
    """Return the source of a batch's random words: the next samples of a fixed set of `size`; with None the stream."""
    return stream if size is None else FixedSet(stream.seeds_S, find_visited_samples(stream, batch, size))


def find_visited_samples(stream: Stream, batch: int, size: int) -> Tensor:
    """Return the indices of the samples in the batch of the stream's step, counted from 1, int64 (S, batch)."""
    row = torch.arange(batch, device=stream.seeds_S.device)
    step = stream.step[:, None] if stream.step.dim() else stream.step
    visit = ((step - 1) * batch + row).expand(len(stream.seeds_S), batch)
    epoch = visit // size
    return _shuffle(stream.seeds_S, epoch, visit - epoch * size, size)


def _shuffle(seeds_S: Tensor, epoch_SB: Tensor, visit_SB: Tensor, size: int) -> Tensor:
    """Return the index of the sample at each visit of an epoch, by a swap-or-not shuffle of 0..size-1."""
    keys = _draw_words(seeds_S, epoch_SB, _ORDER_SITE, -(-2 * _SHUFFLE_ROUNDS // 4))
    index = visit_SB
    for number in range(_SHUFFLE_ROUNDS):
        # Index and partner both use the bit of the larger of the two, so each round is a bijection.
        partner = _scale_word(keys[..., 2 * number], size) - index
        partner = torch.where(partner < 0, partner + size, partner)
        mixed = _mix_bits(torch.maximum(index, partner), keys[..., 2 * number + 1])
        index = torch.where((mixed & 1) == 1, partner, index)
    return index


def _scale_word(word: Tensor, size: int) -> Tensor:
    """Return floor(word * size / 2^32) of a 32-bit word and a size up to 2^32, without overflow of int64."""
    return ((word >> 16) * size + (((word & 0xFFFF) * size) >> 16)) >> 16


def _mix_bits(x: Tensor, key: Tensor) -> Tensor:
    """Return 32 mixed bits of x and key (the finaliser of MurmurHash3, with the key added to its multiplications)."""
    x = ((x + key) * 0x9E3779B1) & _MASK
    x = ((x ^ (x >> 16)) * 0x85EBCA6B + key) & _MASK
    x = ((x ^ (x >> 13)) * 0xC2B2AE35) & _MASK
    return x ^ (x >> 16)


def _draw_words(seeds_S: Tensor, index_SB: Tensor, site: int, blocks: int) -> Tensor:
    """Return 4 * blocks random words for every row, (S, B, 4 * blocks)."""
    block = torch.arange(blocks, dtype=torch.int64, device=index_SB.device)
    block = block + torch.zeros_like(index_SB)[..., None]
    ones = torch.ones_like(block)
    seeds = seeds_S[:, None, None]
    counter = (block, ones * (_FIXED_SET_BIT + site), ones * index_SB[..., None], ones * STREAMS["data"])
    return torch.cat(philox4x32(counter, (seeds & _MASK, (seeds >> 32) & _MASK)), dim=-1)
