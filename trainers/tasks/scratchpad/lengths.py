"""The lengths of a training batch, drawn from a distribution, in slices as wide as their longest rows.

A slice has a fixed share of the rows and the same share of the distribution's mass, so a random row of the batch
follows the distribution for any number of slices. Shapes: S seeds, B rows, E examples.
"""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate, pairwise

import torch
from torch import Tensor

from trainers.random import Stream
from trainers.tasks.fixed_set import Draws, training_draws
from trainers.tasks.parts import draw_below
from trainers.tensors.device_constants import constant

LENGTH_SITES = 3  # of random words, for each draw of lengths
_WORD_COUNT = 2**32
Law = tuple[tuple[int, int], ...]  # ascending lengths, each with its weight


@dataclass(frozen=True)
class Slice:
    """The rows first..last-1 of a training batch, their possible lengths, ascending, and the mass of each length.

    laws: for each stage of a curriculum, or a single time without stages, the probability mass of each length in the
    slice. stage_S: the stage of each seed.
    """

    number: int
    first: int
    last: int
    lengths: tuple[int, ...]
    laws: tuple[tuple[Fraction, ...], ...]
    stage_S: Tensor | None = None

    @property
    def rows(self) -> int:
        """Number of rows."""
        return self.last - self.first

    @property
    def longest(self) -> int:
        """The longest length."""
        return self.lengths[-1]

    def draws(self, stream: Stream, rows: int, fixed_set: int | None) -> Draws:
        """Return the source of its random words in a batch of `rows`; slices have different samples of a fixed set."""
        size = fixed_set and max(1, fixed_set * self.last // rows - fixed_set * self.first // rows)
        return training_draws(stream, self.rows, size)

    def draw_lengths(
        self, draws: Draws, site: int, rows: int, weight: Callable[[int], Fraction] = lambda length: Fraction(1)
    ) -> Tensor:
        """Return drawn lengths, int64 (S, rows), with the mass of each length multiplied by `weight`."""
        # The upper bounds of the random words of each length but the last, at each stage.
        words, ends = draws.bits(site, (rows,)), []
        for law in self.laws:
            weighted = [share * weight(length) for length, share in zip(self.lengths, law, strict=True)]
            ends.append(tuple(round(mass / sum(weighted) * _WORD_COUNT) for mass in accumulate(weighted[:-1])))

        # The length of each row, by the bounds of its stage.
        if self.stage_S is None:
            bounds = constant(ends[0], words.device)
        else:
            bounds = constant(tuple(ends), words.device)[self.stage_S][:, None]
        return constant(self.lengths, words.device)[(words[..., None] >= bounds).sum(dim=-1)]

    def look_up(self, length: Tensor, value: Callable[[int], int]) -> Tensor:
        """Return `value` of each length, in the shape of `length`."""
        values = {known: value(known) for known in self.lengths}
        return constant(tuple(values.get(known, 0) for known in range(self.longest + 1)), length.device)[length]

    def draw_transitions(
        self, draws: Draws, site: int, transitions: Callable[[int], int]
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return drawn examples whose consecutive transitions fill the rows, each distributed as a random transition.

        The results are the lengths of the examples, int64 (S, E), and for each row the index of its example and the
        number of its transition, (S, B). The first example starts at a random transition, and the last example is cut
        at the last row.
        """
        # The first example, by its transitions, and enough others to fill the rows.
        fewest = min(map(transitions, self.lengths))
        first_S1 = self.draw_lengths(draws, site, 1)
        most_examples = (self.rows - 1) // fewest + 1
        rest = self.draw_lengths(draws, site + 1, most_examples, lambda length: Fraction(1, transitions(length)))
        length_SE = torch.cat([first_S1, rest], dim=-1)

        # The example and the transition of each row, from a random transition of the first example on.
        counts = self.look_up(length_SE, transitions)
        ends = counts.cumsum(dim=-1)
        row = torch.arange(self.rows, device=ends.device) + draw_below(draws, site + 2, (1,), counts[:, :1])
        example = torch.searchsorted(ends, row, right=True)
        return length_SE, example, row - (ends - counts).gather(-1, example)


@lru_cache(maxsize=256)
def split_batch(law: Law, rows: int, count: int) -> tuple[Slice, ...]:
    """Return the non-empty slices of a batch of `rows`, at most `count`.

    >>> slices = split_batch(((1, 1), (2, 3)), 4, 2)
    >>> [(part.rows, part.lengths, [str(share) for share in part.laws[0]]) for part in slices]
    [(2, (1, 2), ['1/4', '1/4']), (2, (2,), ['1/2'])]
    """
    # The rows at which slices begin and end.
    total = sum(weight for _, weight in law)
    edges = sorted({rows * part // count for part in range(count + 1)})
    slices = []
    for number, (first, last) in enumerate(pairwise(edges)):
        # The slice has the mass from `low` to `high`; each length has the mass from `start` to `end`.
        low, high, start = Fraction(first, rows), Fraction(last, rows), Fraction(0)
        shares = dict[int, Fraction]()
        for length, weight in law:
            end = start + Fraction(weight, total)
            if (share := min(high, end) - max(low, start)) > 0:
                shares[length] = share
            start = end
        slices.append(Slice(number, first, last, tuple(shares), (tuple(shares.values()),)))
    return tuple(slices)
