"""Rows assembled from parts of different lengths, with shapes that do not depend on random numbers.

A row is padded at its end to a width that follows from the settings.
Shapes: S seeds, B rows, K tokens of a part, F tokens of which some are used.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from trainers.tasks.fixed_set import Draws

PAD = 0
RowPart = tuple[Tensor, Tensor]  # tokens (S, B, K), and the number of used tokens, (S, B)


def draw_below(draws: Draws, site: int, shape: tuple[int, ...], high: int | Tensor) -> Tensor:
    """Return random integers in [0, high), int64 (S, *shape)."""
    return (draws.bits(site, shape) * high) >> 32


def repeat_token(token: int, like_SB: Tensor) -> RowPart:
    """Return a part with the same single token in every row, in the shape of `like_SB`."""
    return torch.full_like(like_SB, token)[..., None], torch.ones_like(like_SB)


def join_parts(parts: Sequence[RowPart], width: int) -> Tensor:
    """Return the used tokens of all parts, concatenated and padded to `width`, (S, B, width).

    >>> two = torch.tensor([[[7, 8, 9]]]), torch.tensor([[2]])
    >>> join_parts([two, two], 6).tolist()
    [[[7, 8, 7, 8, 0, 0]]]
    """
    is_used = torch.cat([mask_leading(tokens.shape[-1], count) for tokens, count in parts], dim=-1)
    tokens = torch.cat([tokens for tokens, _ in parts], dim=-1)
    return scatter_columns(tokens, find_packed_columns(is_used, width), width)


def mask_leading(width: int, count: Tensor) -> Tensor:
    """Return a mask of the first `count` (...) of `width` columns, bool (..., width)."""
    return torch.arange(width, device=count.device) < count[..., None]


def find_packed_columns(is_used_SBF: Tensor, width: int) -> Tensor:
    """Return the column of each used token after removing unused ones, which get `width`, int64 (S, B, F)."""
    return torch.where(is_used_SBF, is_used_SBF.long().cumsum(dim=-1) - 1, width)


def scatter_columns(values_SBF: Tensor, columns_SBF: Tensor, width: int, fill: int = PAD) -> Tensor:
    """Return values scattered to their columns, int64 (S, B, width), with `fill` elsewhere."""
    row = values_SBF.new_full((*columns_SBF.shape[:-1], width + 1), fill)  # the last column takes unused values
    return row.scatter_(-1, columns_SBF, values_SBF)[..., :width]
