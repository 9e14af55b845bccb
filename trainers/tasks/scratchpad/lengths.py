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
from trainers.tasks.fixed_set import Draws, make_training_draws
from trainers.tasks.parts import draw_below
from trainers.tensors.device_constants import make_constant

LENGTH_SITES = 3  # sites of random words for each draw of lengths
_WORD_COUNT = 2**32  # number of different random words
LengthWeights = tuple[tuple[int, int], ...]  # ascending lengths, each with its weight


@dataclass(frozen=True)
class Slice:
    """The rows first..last-1 of a training batch, their possible lengths, ascending, and the mass of each length.

    masses: the probability mass of each length in the slice, for each stage of a curriculum, or once without stages.
    stage_S: the stage of each seed.
    """

    number: int
    first: int
    last: int
    lengths: tuple[int, ...]
    masses: tuple[tuple[Fraction, ...], ...]
    stage_S: Tensor | None = None

    @property
    def rows(self) -> int:
        """Number of rows."""
        return self.last - self.first

    @property
    def longest(self) -> int:
        """The longest length."""
        return self.lengths[-1]

    def make_draws(self, stream: Stream, rows: int, fixed_set: int | None) -> Draws:
        """Return the source of the slice's random words in a batch of `rows`.

        Slices have different samples of a fixed set.
        """
        size = fixed_set and max(1, fixed_set * self.last // rows - fixed_set * self.first // rows)
        return make_training_draws(stream, self.rows, size)

    def draw_lengths(
        self, draws: Draws, site: int, rows: int, weight: Callable[[int], Fraction] = lambda length: Fraction(1)
    ) -> Tensor:
        """Return drawn lengths, int64 (S, rows), with the mass of each length multiplied by `weight`."""
        # A random word below the first bound gives the first length, and so on; fractions keep the bounds exact.
        words = draws.bits(site, (rows,))
        stage_bounds = []
        for masses in self.masses:
            weighted = [mass * weight(length) for length, mass in zip(self.lengths, masses, strict=True)]
            total = sum(weighted)
            stage_bounds.append(tuple(round(mass / total * _WORD_COUNT) for mass in accumulate(weighted[:-1])))

        # Seeds may be at different stages, so each looks up the bounds of its stage.
        if self.stage_S is None:
            bounds = make_constant(stage_bounds[0], words.device)
        else:
            bounds = make_constant(tuple(stage_bounds), words.device)[self.stage_S][:, None]
        return make_constant(self.lengths, words.device)[(words[..., None] >= bounds).sum(dim=-1)]

    def look_up(self, length: Tensor, value: Callable[[int], int]) -> Tensor:
        """Return `value` of each length, in the shape of `length`."""
        values = {possible: value(possible) for possible in self.lengths}
        table = tuple(values.get(index, 0) for index in range(self.longest + 1))
        return make_constant(table, length.device)[length]

    def draw_transitions(
        self, draws: Draws, site: int, transitions: Callable[[int], int]
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return drawn examples whose consecutive transitions fill the rows, each distributed as a random transition.

        The results are the lengths of the examples, int64 (S, E), and for each row the index of its example and the
        number of its transition, (S, B). The first example starts at a random transition, and the last example is cut
        at the last row.
        """
        # A random transition is more often in a long example, so the first example is drawn by the mass of its
        # transitions. The others follow it whole, so they are drawn by the number of examples.
        min_transitions = min(map(transitions, self.lengths))
        first_S1 = self.draw_lengths(draws, site, 1)
        max_examples = (self.rows - 1) // min_transitions + 1
        others_SE = self.draw_lengths(draws, site + 1, max_examples, lambda length: Fraction(1, transitions(length)))
        length_SE = torch.cat([first_S1, others_SE], dim=-1)

        # The rows are consecutive transitions, from a random transition of the first example on.
        counts = self.look_up(length_SE, transitions)
        ends = counts.cumsum(dim=-1)
        row = torch.arange(self.rows, device=ends.device) + draw_below(draws, site + 2, (1,), counts[:, :1])
        example = torch.searchsorted(ends, row, right=True)
        return length_SE, example, row - (ends - counts).gather(-1, example)


@lru_cache(maxsize=256)
def split_batch(weights: LengthWeights, rows: int, count: int) -> tuple[Slice, ...]:
    """Return the non-empty slices of a batch of `rows`, at most `count`; weights: of each length in the batch.

    >>> slices = split_batch(((1, 1), (2, 3)), 4, 2)
    >>> [(part.rows, part.lengths, [str(share) for share in part.masses[0]]) for part in slices]
    [(2, (1, 2), ['1/4', '1/4']), (2, (2,), ['1/2'])]
    """
    total = sum(weight for _, weight in weights)
    edges = sorted({rows * part // count for part in range(count + 1)})
    slices = []
    for number, (first, last) in enumerate(pairwise(edges)):
        # The slice has the mass from `low` to `high`; each length has the mass from `start` to `end`.
        low = Fraction(first, rows)
        high = Fraction(last, rows)
        start = Fraction(0)
        masses = dict[int, Fraction]()
        for length, weight in weights:
            end = start + Fraction(weight, total)
            if (mass := min(high, end) - max(low, start)) > 0:
                masses[length] = mass
            start = end
        slices.append(Slice(number, first, last, tuple(masses), (tuple(masses.values()),)))
    return tuple(slices)
