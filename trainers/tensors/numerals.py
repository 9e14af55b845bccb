"""Token ids of sequences with two numbers around an operator, and the role of every token in them.

Ids 0..9 are digits, PAD fills a number to its width, PLUS and TIMES are operators, and text has ids from TEXT up.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

DIGITS = 10  # ids below it are the digits
PAD, PLUS, TIMES, TEXT = 10, 11, 12, 13
NO_ROLE, FIRST, SECOND, OPERATOR = range(4)


@dataclass(frozen=True)
class Places:
    """The role and significance of each position, int64 (T,) or (S, B, T).

    role: NO_ROLE (text), FIRST or SECOND (a number with its pads) or OPERATOR. significance: 1 for the units of a
    number, 2 for the tens and so on, pads included; 0 outside numbers.
    """

    role: Tensor
    significance: Tensor


def find_places(tokens: Tensor) -> Places:
    """Return role and significance of every token of sequences (..., T); the operator separates the numbers.

    7 + P 6 among text:

    >>> places = find_places(torch.tensor([13, 7, 14, PLUS, PAD, 6, 13]))
    >>> places.role.tolist(), places.significance.tolist()
    ([0, 1, 0, 3, 2, 2, 0], [0, 1, 0, 0, 2, 1, 0])
    """
    operator = (tokens == PLUS) | (tokens == TIMES)
    is_later = operator.long().cumsum(dim=-1) > 0
    first = (tokens <= PAD) & ~is_later
    second = (tokens <= PAD) & is_later
    role = FIRST * first.long() + SECOND * second.long() + OPERATOR * operator.long()

    # Significance counts from the right, because numbers end with their units.
    significance = torch.zeros_like(role)
    for is_in_number in (first, second):
        index = is_in_number.long().cumsum(dim=-1)
        significance = torch.where(is_in_number, index[..., -1:] + 1 - index, significance)
    return Places(role, significance)
