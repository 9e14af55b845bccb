"""Random pairs of numbers with a given longest carry chain, drawn without rejection.

From the units up, a pair of digits sums to 10 or more (45 ordered pairs), to 9 (10), or to 8 or less (45). There are
two kinds of chains: a `cascade` starts with a pair of 10 or more and continues over pairs of exactly 9; a `run` has
only pairs of 10 or more. Given the positions left, the length k of the current chain and whether length c was reached,
the number of ways to end with a longest chain of c is computed in integers. Digits are drawn in proportion to it, with
probabilities rounded to multiples of 2^-32; impossible digits have probability 0.
Shapes: S seeds, B rows, W digits.
"""

from functools import lru_cache

import torch
from torch import Tensor

from trainers.tasks.fixed_set import Draws
from trainers.tensors.device_constants import make_constant

FREE = -1  # the class of all pairs of numbers
_PAIRS = tuple(  # of digits, ordered by kind: sums from 10, of 9, up to 8
    (i, j) for low, high in ((10, 18), (9, 9), (0, 8)) for i in range(10) for j in range(10) if low <= i + j <= high
)
_SIZES = (45, 10, 45)  # number of pairs of each kind
_OFFSETS = (0, 45, 55)  # index of the first pair of each kind


def count_pairs(chain: str, c: int, digits: int) -> int:
    """Return how many of the 100^digits pairs of numbers below 10^digits have a longest chain of length c."""
    return _Counts(chain, c).count_ways(digits, 0, c == 0)


def draw_pairs(
    draws: Draws, site: int, batch: int, digits: int, chain: str, classes: tuple[int, ...], class_SB: Tensor
) -> tuple[Tensor, Tensor]:
    """Return two drawn numbers, (S, B, digits) each, uniform among the pairs whose longest chain is classes[class_SB].

    Every class must be possible (`count_pairs` > 0) or FREE. Takes one site.
    """
    device = class_SB.device
    table = _make_bounds_table(chain, classes, digits, device)
    target = make_constant(classes, device)[class_SB]
    offsets, sizes = make_constant(_OFFSETS, device), make_constant(_SIZES, device)
    words = draws.bits(site, (batch, digits, 2))

    # The kind of each pair is drawn first: the chain depends on it alone, and all pairs of a kind are equally likely.
    k = torch.zeros_like(target)
    reached = (target == 0).long()
    pair_indices = []
    for i in range(digits):
        bounds = table[class_SB, digits - i, k, reached]
        kind = (words[..., i, 0, None] >= bounds).sum(dim=-1)
        pair_indices.append(offsets[kind] + ((words[..., i, 1] * sizes[kind]) >> 32))
        if chain == "cascade":
            k = torch.where(kind == 0, 1, torch.where((kind == 1) & (k > 0), k + 1, 0))
        else:
            k = torch.where(kind == 0, k + 1, 0)
        k = k.clamp(max=table.shape[2] - 1)  # only chains of FREE grow beyond the table
        reached = torch.where(k == target, 1, reached)
    pairs = make_constant(_PAIRS, device)[torch.stack(pair_indices, dim=-1)]
    return pairs[..., 0], pairs[..., 1]


def draw_pairs_without_carries(draws: Draws, site: int, batch: int, digits: int) -> tuple[Tensor, Tensor]:
    """Return two drawn numbers, (S, B, digits) each; pairs of digits are uniform among the 55 that sum to at most 9."""
    words = draws.bits(site, (batch, digits))
    pairs = make_constant(_PAIRS[_SIZES[0] :], words.device)[(words * sum(_SIZES[1:])) >> 32]
    return pairs[..., 0], pairs[..., 1]


@lru_cache(maxsize=256)
def _make_bounds_table(chain: str, classes: tuple[int, ...], digits: int, device: torch.device) -> Tensor:
    """Return two bounds on a 32-bit word by class, positions left, k and reached, int64 (classes, left, k, 2, 2).

    For a word below the first bound the pair sums to 10 or more, below the second bound to 9, otherwise to less.
    """
    ks = range(max(0, *classes) + 1)
    table = []
    for counts in (_Counts(chain, c) for c in classes):
        by_left = (
            [[counts.make_bounds(left, k, reached) for reached in (False, True)] for k in ks]
            for left in range(digits + 1)
        )
        table.append(list(by_left))
    return torch.tensor(table, device=device)


class _Counts:
    """Numbers of ways to complete a pair of numbers so that its longest chain is c; all ways for FREE."""

    def __init__(self, chain: str, c: int) -> None:
        self.chain = chain
        self.c = c
        self._cached_ways: dict[tuple[int, int, bool], int] = {}

    def count_ways(self, left: int, k: int, reached: bool) -> int:
        """Return the number of ways to fill `left` more positions, after a chain of length k."""
        if self.c == FREE:
            return int(100**left)
        if k > self.c:
            return 0
        if left == 0:
            return int(reached)

        # The recursion visits a state many times; without the cache it would take exponential time.
        key = (left, k, reached)
        if key not in self._cached_ways:
            self._cached_ways[key] = sum(self.count_ways_by_kind(left, k, reached))
        return self._cached_ways[key]

    def count_ways_by_kind(self, left: int, k: int, reached: bool) -> list[int]:
        """Return the number of ways that start with a pair of each kind: 10 or more, 9, less."""
        lengths = (1, k + 1 if k else 0, 0) if self.chain == "cascade" else (k + 1, 0, 0)
        return [
            size * self.count_ways(left - 1, length, reached or length == self.c)
            for size, length in zip(_SIZES, lengths, strict=True)
        ]

    def make_bounds(self, left: int, k: int, reached: bool) -> list[int]:
        """Return the two bounds of `_make_bounds_table`; arbitrary in unreachable states."""
        if left == 0 or self.count_ways(left, k, reached) == 0:
            return [0, 0]
        carry, nine, less = self.count_ways_by_kind(left, k, reached)
        total = carry + nine + less
        return [(carry << 32) // total, ((carry + nine) << 32) // total]
