"""Rows that are put together of parts of different lengths, without a shape that depends on what is drawn.

A row is filled up with pads on its right to a width that follows from the settings alone.
Shapes: S seeds, B rows, K tokens of a part, F tokens of which some count, T positions.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from trainers.tasks.fixed_set import Draws

PAD = 0  # the token of a place that nothing stands at
Part = tuple[Tensor, Tensor]  # tokens (S, B, K), and how many of them count, (S, B)


def below(draws: Draws, site: int, shape: tuple[int, ...], high: int | Tensor) -> Tensor:
    """Random integers from 0 up to one less than `high`, int64 (S, *shape)."""
    return (draws.bits(site, shape) * high) >> 32


def one(token: int, like_SB: Tensor) -> Part:
    """A part that is one token in every row."""
    return torch.full_like(like_SB, token)[..., None], torch.ones_like(like_SB)


def laid_out(parts: Sequence[Part], width: int) -> Tensor:
    """The tokens that count of all parts, one part behind the other, and pads up to `width`, (S, B, width).

    >>> two = torch.tensor([[[7, 8, 9]]]), torch.tensor([[2]])
    >>> laid_out([two, two], 6).tolist()
    [[[7, 8, 7, 8, 0, 0]]]
    """
    counts = torch.cat([leading(tokens.shape[-1], count) for tokens, count in parts], dim=-1)
    return closed_up(torch.cat([tokens for tokens, _ in parts], dim=-1), places(counts, width), width)


def leading(width: int, count: Tensor) -> Tensor:
    """Which of `width` places are the first `count` (...) ones, bool (..., width)."""
    return torch.arange(width, device=count.device) < count[..., None]


def places(counts_SBF: Tensor, width: int) -> Tensor:
    """Where each token that counts stands when the others are left out; `width` for those, int64 (S, B, F)."""
    return torch.where(counts_SBF, counts_SBF.long().cumsum(dim=-1) - 1, width)


def closed_up(values_SBF: Tensor, places_SBF: Tensor, width: int, fill: int = PAD) -> Tensor:
    """Values at their places, int64 (S, B, width), with `fill` where none is."""
    found = values_SBF.new_full((*places_SBF.shape[:-1], width + 1), fill)  # the last place takes what does not count
    return found.scatter_(-1, places_SBF, values_SBF)[..., :width]
