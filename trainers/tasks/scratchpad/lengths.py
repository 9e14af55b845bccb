"""The lengths of a training batch: drawn by a law, in slices that are each as wide as their longest row.

A slice holds a fixed part of the rows and the same part of the law, so that each row of a batch, taken at random, has
a length by the law, whatever the number of slices. Shapes: S seeds, B rows, L lengths.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate, pairwise

import torch
from torch import Tensor

from trainers.random import Stream
from trainers.tasks.fixed_set import Draws, training_draws
from trainers.tasks.parts import below
from trainers.tensors.device_constants import constant

LENGTH_SITES = 3  # of random words that a draw of lengths may take
_WORDS = 2**32
Law = tuple[tuple[int, int], ...]  # lengths, the shortest first, each with its weight


@dataclass(frozen=True)
class Slice:
    """Some rows of a training batch, their lengths, ascending, and how much of the law each of these has here."""

    number: int
    first: int
    last: int
    lengths: tuple[int, ...]
    shares: tuple[Fraction, ...]

    @property
    def rows(self) -> int:
        """How many rows it has."""
        return self.last - self.first

    @property
    def longest(self) -> int:
        """The longest length."""
        return self.lengths[-1]

    def draws(self, stream: Stream, rows: int, fixed_set: int | None) -> Draws:
        """Its random words in a batch of `rows`; of a fixed set it has samples of its own."""
        size = fixed_set and max(1, fixed_set * self.last // rows - fixed_set * self.first // rows)
        return training_draws(stream, self.rows, size)

    def drawn(
        self, draws: Draws, site: int, rows: int, weight: Callable[[int], Fraction] = lambda length: Fraction(1)
    ) -> Tensor:
        """Lengths by the law, each times its `weight`, int64 (S, rows)."""
        words = draws.bits(site, (rows,))
        place = (words[..., None] >= self.ends(weight, words.device)).sum(dim=-1)
        return constant(self.lengths, words.device)[place]

    def ends(self, weight: Callable[[int], Fraction], device: torch.device) -> Tensor:
        """Where the words of each length but the last end, with shares times `weight`; of all rows alike, (L - 1,)."""
        return constant(self._ends(self.shares, weight), device)

    def _ends(self, shares: Sequence[Fraction], weight: Callable[[int], Fraction]) -> tuple[int, ...]:
        weighted = [share * weight(length) for length, share in zip(self.lengths, shares, strict=True)]
        return tuple(round(before / sum(weighted) * _WORDS) for before in accumulate(weighted[:-1]))

    def of_each(self, length: Tensor, value: Callable[[int], int]) -> Tensor:
        """A number of each length."""
        known = {of: value(of) for of in self.lengths}
        return constant(tuple(known.get(of, 0) for of in range(self.longest + 1)), length.device)[length]

    def window(self, draws: Draws, site: int, transitions: Callable[[int], int]) -> tuple[Tensor, Tensor, Tensor]:
        """All transitions of examples one after the other, where the law is that of transitions.

        Lengths of examples, int64 (S, E), and of each row the place of its example there and the number of its
        transition, (S, B). The first example begins anywhere, and the last one ends where the rows end: so each row,
        by itself, is any transition by the law.
        """
        fewest = min(map(transitions, self.lengths))
        first_S1 = self.drawn(draws, site, 1)
        further = (self.rows - 1) // fewest + 1
        others = self.drawn(draws, site + 1, further, lambda length: Fraction(1, transitions(length)))
        length_SE = torch.cat([first_S1, others], dim=-1)
        counts = self.of_each(length_SE, transitions)
        ends = counts.cumsum(dim=-1)
        place = torch.arange(self.rows, device=ends.device) + below(draws, site + 2, (1,), counts[:, :1])
        example = torch.searchsorted(ends, place, right=True)
        return length_SE, example, place - (ends - counts).gather(-1, example)


@dataclass(frozen=True)
class StagedSlice(Slice):
    """Rows of seeds that stand at stages of their own, `stage_S`, each stage with a law over the same lengths.

    `laws`: the shares of the lengths at each stage, 0 where there is none; `shares` is not used.
    """

    laws: tuple[tuple[Fraction, ...], ...]
    stage_S: Tensor

    def ends(self, weight: Callable[[int], Fraction], device: torch.device) -> Tensor:
        """Where the words of each length but the last end at the stage of each seed, (S, 1, L - 1)."""
        return constant(tuple(self._ends(law, weight) for law in self.laws), device)[self.stage_S][:, None]


@lru_cache(maxsize=256)
def slices_of(law: Law, rows: int, count: int) -> tuple[Slice, ...]:
    """The slices of a batch of `rows`: those that have any.

    >>> [(one.rows, one.lengths, [str(share) for share in one.shares]) for one in slices_of(((1, 1), (2, 3)), 4, 2)]
    [(2, (1, 2), ['1/4', '1/4']), (2, (2,), ['1/2'])]
    """
    total = sum(weight for _, weight in law)
    edges = sorted({rows * part // count for part in range(count + 1)})
    found = []
    for number, (first, last) in enumerate(pairwise(edges)):
        low, high, before = Fraction(first, rows), Fraction(last, rows), Fraction(0)
        here = dict[int, Fraction]()
        for length, weight in law:
            after = before + Fraction(weight, total)
            if (share := min(high, after) - max(low, before)) > 0:
                here[length] = share
            before = after
        found.append(Slice(number, first, last, tuple(here), tuple(here.values())))
    return tuple(found)
