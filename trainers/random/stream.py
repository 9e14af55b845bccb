"""Random numbers keyed by (seed, stream name, step), and by the `site` of a draw within the stream.

Streams have no state, so neither the pack, nor the order of draws, nor a restart changes a number.

Key = seed (64 bits). Counter = (block, site, step, stream). A draw of n words uses ceil(n / 4) Philox blocks: first
word 0 of every block, then word 1, and so on. Shapes: S seeds, then the requested shape.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from trainers.random import draws

# Random numbers that use no stream: modules of users draw initial weights after `torch.manual_seed(seed)`.
STREAMS = {
    "init": 0,  # initial weights (`ParameterLayout.draw_initial_weights`, tensors/parameters.py)
    "data": 1,  # training rows (`StepBatches`, packs/batches.py)
    # Forward passes (`Noise`, tensors/noise.py): dropout, random positions, sampled tokens; at step 0 of evaluations.
    "dropout": 2,
    "eval": 3,  # test inputs (`draw_evaluation_inputs`, packs/evaluation_inputs.py)
    "validation": 4,  # at step 0 validation inputs (`draw_validation_inputs`, there), at step 1 their forward passes
    "optimizer": 5,  # optimizers that draw (`Update.stream`)
    "length": 6,  # the length of a step with `one_length_per_batch` (`Task.draw_step_length`), always with seed 0
}
_MAX_HIGH = 2**31  # of `scale_words`: the product with a word of 32 bits must fit into 63 bits
_MAX_PREFIX_ENTRIES = 12  # permutations with at most this many entries are drawn one entry at a time


def scale_words(words: Tensor, high: int) -> Tensor:
    """Return integers in [0, high) from uniform words in [0, 2^32). Raises ValueError for `high` above 2^31."""
    if high > _MAX_HIGH:
        raise ValueError(f"high is {high}; allowed: at most 2**31")
    return (words * high) >> 32


@dataclass(frozen=True)
class Stream:
    """The random numbers of S seeds in a named stream. step: int64, () for all seeds or (S,) for each seed."""

    seeds_S: Tensor
    name: str
    step: Tensor

    def bits(self, site: int, shape: tuple[int, ...], rows: tuple[int, int] | None = None) -> Tensor:
        """Return uniform integers in [0, 2^32), int64 (S, *shape).

        rows: (first, last + 1), to return only these rows of the first dimension of `shape`.
        """
        count = math.prod(shape)
        word_range = None
        if rows is not None:
            # A draw of some rows gives the words that these rows have in the full draw.
            per_row = math.prod(shape[1:])
            word_range = (rows[0] * per_row, rows[1] * per_row)
            shape = (rows[1] - rows[0], *shape[1:])
        words = draws.draw_words(self.seeds_S, self.step, STREAMS[self.name], site, count, word_range)
        return words.reshape(len(self.seeds_S), *shape)

    def uniform(self, site: int, shape: tuple[int, ...]) -> Tensor:
        """Return uniform numbers in [0, 1) with 24 bits, float32 (S, *shape)."""
        return (self.bits(site, shape) >> 8).to(torch.float32) * 2.0**-24

    def normal(self, site: int, shape: tuple[int, ...]) -> Tensor:
        """Return standard normal numbers by Box-Muller in float64, rounded to float32, (S, *shape)."""
        pairs = self.bits(site, (2, math.prod(shape))).to(torch.float64)
        # Words start at 0, whose logarithm is infinite.
        radius = torch.sqrt(-2.0 * torch.log((pairs[:, 0] + 1.0) * 2.0**-32))
        angle = (2.0 * math.pi * 2.0**-32) * pairs[:, 1]
        return (radius * torch.cos(angle)).to(torch.float32).reshape(len(self.seeds_S), *shape)

    def integers(self, site: int, shape: tuple[int, ...], high: int) -> Tensor:
        """Return integers in [0, high), int64 (S, *shape); probabilities are 1 / high up to a relative high / 2^32.

        Raises ValueError for `high` above 2^31.
        """
        return scale_words(self.bits(site, shape), high)

    def permutations(self, site: int, batch: int, n: int, take: int) -> Tensor:
        """Return the first `take` entries of `batch` random permutations of 0..n-1, int64 (S, batch, take)."""
        # A few entries are drawn faster one by one than by sorting n words.
        if take > _MAX_PREFIX_ENTRIES:
            return draws.argsort_smallest(self.bits(site, (batch, n)), take)
        return draws.draw_prefixes(self.bits(site, (take, batch)), n)
