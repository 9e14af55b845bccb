"""Random words and permutations in torch integer operations, for GPUs; bit for bit equal to draws.c.

Shapes: S seeds. A step is () for all seeds, or (S,) for each seed.
"""

import torch
from torch import Tensor

_MASK = 0xFFFFFFFF
_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_WEYL = (0x9E3779B9, 0xBB67AE85)


def philox4x32(
    counter: tuple[Tensor, Tensor, Tensor, Tensor], key: tuple[Tensor, Tensor]
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return Philox4x32-10 of a counter and a key (Salmon et al., SC'11): 32-bit words in int64; shapes broadcast."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for round_number in range(10):
        if round_number:
            k0, k1 = (k0 + _WEYL[0]) & _MASK, (k1 + _WEYL[1]) & _MASK
        # Multipliers minus 2^32 keep the products inside an int64. An overflow would wrap correctly in eager torch, but
        # compiled C++ assumes that signed integers do not overflow and drops masks that are then needed.
        p0, p1 = c0 * (_MULTIPLIERS[0] - 2**32), c2 * (_MULTIPLIERS[1] - 2**32)
        c0, c1, c2, c3 = ((p1 >> 32) + c2) ^ c1 ^ k0, p1 & _MASK, ((p0 >> 32) + c0) ^ c3 ^ k1, p0 & _MASK
    return c0, c1, c2, c3


def draw_words(seeds_S: Tensor, step: Tensor, stream: int, site: int, count: int) -> Tensor:
    """Return the `count` 32-bit words of a draw for every seed, int64 (S, count)."""
    blocks = -(-count // 4)
    seeds, step = seeds_S[:, None], step[..., None]
    # Inductor would compute multiples of a plain index in 32 bits; added to data it stays int64.
    zero = step ^ step
    block = torch.arange(blocks, dtype=torch.int64, device=seeds.device) + zero
    lanes = philox4x32((block, zero + site, step, zero + stream), (seeds & _MASK, (seeds >> 32) & _MASK))
    return torch.cat([lane.expand(len(seeds_S), blocks) for lane in lanes], dim=1)[:, :count]


def draw_word_range(
    seeds_S: Tensor, step: Tensor, stream: int, site: int, count: int, word_range: tuple[int, int]
) -> Tensor:
    """Return some words of the draw of `draw_words`, int64 (S, last + 1 - first); word_range: (first, last + 1)."""
    blocks = -(-count // 4)
    seeds, step = seeds_S[:, None], step[..., None]
    zero = step ^ step

    # `draw_words` concatenates the four lanes, so a word's index gives its lane and block.
    index = torch.arange(*word_range, dtype=torch.int64, device=seeds.device) + zero
    lane = index // blocks
    counter = (index - lane * blocks, zero + site, step, zero + stream)

    # Philox computes all four lanes of a block at once; select the lane of each word.
    selected = torch.zeros_like(index)
    for number, values in enumerate(philox4x32(counter, (seeds & _MASK, (seeds >> 32) & _MASK))):
        selected = torch.where(lane == number, values, selected)
    return selected


def draw_prefixes(words: Tensor, n: int) -> Tensor:
    """Return the first entries of permutations of 0..n-1, int64 (S, batch, take), from words (S, take, batch)."""
    drawn: list[Tensor] = []
    sorted_entries: list[Tensor] = []

    # An entry is an index among the numbers not yet drawn. To turn it into a number, go through the drawn numbers in
    # ascending order, and add one for each that is not larger.
    for index in range(words.shape[1]):
        entry = (words[:, index] * (n - index)) >> 32
        for drawn_number in sorted_entries:
            entry = entry + (entry >= drawn_number)
        drawn.append(entry)

        # Keep the drawn numbers sorted, by an insertion without branches, because every row differs.
        larger = entry
        for position, drawn_number in enumerate(sorted_entries):
            sorted_entries[position] = torch.minimum(drawn_number, larger)
            larger = torch.maximum(drawn_number, larger)
        sorted_entries.append(larger)
    return torch.stack(drawn, dim=-1)


def argsort_smallest(words: Tensor, take: int) -> Tensor:
    """Return the indices of the `take` smallest words of each row (..., N), sorted stably."""
    return torch.argsort(words, dim=-1, stable=True)[..., :take]
