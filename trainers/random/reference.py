"""Random words and permutations in torch integer operations: what a CUDA device runs, and what draws.c is equal to.

S seeds. The step of a draw is one for all seeds, (), or one for each, (S,).
"""

import torch
from torch import Tensor

_MASK = 0xFFFFFFFF
_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_WEYL = (0x9E3779B9, 0xBB67AE85)


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


def words(seeds_S: Tensor, step: Tensor, stream: int, site: int, count: int) -> Tensor:
    """The `count` words of a draw of every seed, int64 (S, count)."""
    blocks = -(-count // 4)
    seeds, step = seeds_S[:, None], step[..., None]
    # Inductor would carry constant multiples of an index in 32 bits; added to data, the index is an int64 like any.
    zero = step ^ step
    block = torch.arange(blocks, dtype=torch.int64, device=seeds.device) + zero
    found = philox4x32((block, zero + site, step, zero + stream), (seeds & _MASK, (seeds >> 32) & _MASK))
    return torch.cat([word.expand(len(seeds_S), blocks) for word in found], dim=1)[:, :count]


def some_words(seeds_S: Tensor, step: Tensor, stream: int, site: int, count: int, part: tuple[int, int]) -> Tensor:
    """Words first..last-1 of the same draw, (S, last - first): each of the block and lane it has in the whole."""
    blocks = -(-count // 4)
    seeds, step = seeds_S[:, None], step[..., None]
    zero = step ^ step
    place = torch.arange(*part, dtype=torch.int64, device=seeds.device) + zero
    lane = place // blocks
    counter = (place - lane * blocks, zero + site, step, zero + stream)
    found = torch.zeros_like(place)
    for number, each in enumerate(philox4x32(counter, (seeds & _MASK, (seeds >> 32) & _MASK))):
        found = torch.where(lane == number, each, found)
    return found


def sequential(words: Tensor, n: int) -> Tensor:
    """Permutations of 0..n-1 begun, one entry after another: words (S, take, batch), int64 (S, batch, take)."""
    drawn: list[Tensor] = []
    taken: list[Tensor] = []  # ascending
    for index in range(words.shape[1]):
        entry = (words[:, index] * (n - index)) >> 32
        for low in taken:  # the entry-th number that is not yet taken
            entry = entry + (entry >= low)
        drawn.append(entry)
        rest = entry
        for place, low in enumerate(taken):
            taken[place], rest = torch.minimum(low, rest), torch.maximum(low, rest)
        taken.append(rest)
    return torch.stack(drawn, dim=-1)


def order(words: Tensor, take: int) -> Tensor:
    """The places of the `take` smallest words of each row, ascending, the earlier of equal ones first."""
    return torch.argsort(words, dim=-1, stable=True)[..., :take]
