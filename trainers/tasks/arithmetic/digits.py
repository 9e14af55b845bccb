"""Numbers of any width as digit tensors: sums, products, carries, and how far carries travel (arXiv:2406.01895).

A number is an int64 tensor (..., W) of its W decimal digits, units first. No number is ever an int64, so fifty digits
are as exact as two. Ids: 0..9 are the digits, PAD stands where a number has no digit.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from trainers.tensors.numerals import PAD


def of_integers(values: Sequence[int], width: int) -> Tensor:
    """Digits (N, width) of N non-negative integers. Raises ValueError where one has more digits."""
    rows = []
    for value in values:
        text = str(value)[::-1]
        if value < 0 or len(text) > width:
            raise ValueError(f"{value} does not fit into {width} digits")
        rows.append([int(digit) for digit in text] + [0] * (width - len(text)))
    return torch.tensor(rows, dtype=torch.int64).reshape(len(rows), width)


def to_integers(digits_NW: Tensor) -> list[int]:
    """The inverse of `of_integers`, as Python integers."""
    return [int("".join(str(digit) for digit in reversed(row))) for row in digits_NW.tolist()]


def carries(sums: Tensor) -> Tensor:
    """Whether a carry leaves each position, given the sums of the digit pairs (..., W), bool (..., W).

    It does where the nearest pair at or below it that does not sum to 9 sums to 10 or more.
    """
    return (_nearest_decided(sums) & 1).bool()


def add(first: Tensor, second: Tensor) -> Tensor:
    """The digits (..., W + 1) of the sum of two numbers (..., W)."""
    sums = first + second
    out = carries(sums).to(sums.dtype)
    total = torch.nn.functional.pad(sums, (0, 1)) + torch.nn.functional.pad(out, (1, 0))
    return torch.where(total >= 10, total - 10, total)


def cascade_length(sums: Tensor) -> Tensor:
    """The longest way of one carry, int64 (...): 1 + the pairs of exactly 9 directly above a pair of 10 or more."""
    decided = _nearest_decided(sums)
    place = torch.arange(1, sums.shape[-1] + 1, device=sums.device)
    return torch.where((decided & 1) == 1, place - (decided >> 1) + 1, 0).amax(dim=-1)


def carry_run(sums: Tensor) -> Tensor:
    """The longest run of neighbouring pairs that each sum to 10 or more, int64 (...)."""
    place = torch.arange(1, sums.shape[-1] + 1, device=sums.device)
    return (place - torch.where(sums < 10, place, 0).cummax(dim=-1).values).amax(dim=-1)


def multiply(first: Tensor, second: Tensor) -> Tensor:
    """The digits (..., W1 + W2) of the product of numbers (..., W1) and (..., W2), W1 the shorter one for speed."""
    width = first.shape[-1] + second.shape[-1]
    columns = torch.zeros_like(first[..., :1] * second[..., :1]).expand(*second.shape[:-1], width)
    for i in range(first.shape[-1]):
        part = first[..., i : i + 1] * second
        columns = columns + torch.nn.functional.pad(part, (i, width - i - second.shape[-1]))
    digits, carry = [], torch.zeros_like(columns[..., 0])
    for i in range(width):
        value = columns[..., i] + carry
        carry = value // 10
        digits.append(value - 10 * carry)
    return torch.stack(digits, dim=-1)


def shifted(digits: Tensor, by: Tensor) -> Tensor:
    """The number (..., W) times ten to the power `by` (...); digits beyond W are lost."""
    source = torch.arange(digits.shape[-1], device=digits.device) - by[..., None]
    return torch.where(source < 0, 0, torch.gather(digits, -1, source.clamp(min=0)))


def digit_count(digits: Tensor) -> Tensor:
    """How many digits are written, int64 (...): none of the leading zeros, and one for the number 0."""
    place = torch.arange(1, digits.shape[-1] + 1, device=digits.device)
    return torch.where(digits > 0, place, 0).amax(dim=-1).clamp(min=1)


def written(digits: Tensor, count: Tensor) -> Tensor:
    """Tokens (..., W) as one reads them: the lowest `count` (...) digits at the right, pads on their left."""
    place = torch.arange(digits.shape[-1], device=digits.device)
    return torch.where(place < count[..., None], digits, PAD).flip(-1)


def read(tokens: Tensor) -> Tensor:
    """The digits (..., W), units first, of tokens that `written` wrote."""
    return torch.where(tokens == PAD, 0, tokens).flip(-1)


def parallel_addition(first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
    """Algorithm 1, corrected: the digits (..., W + 1) of the sum and the number of rounds (...).

    A round sends all carries one position up at once: s_j <- (s_j mod 10) + floor(s_(j-1) / 10), while any s_i >= 10.
    As printed, the algorithm adds the carry before it reduces and loses it where that makes 10: 4578 + 5425 -> 9903.
    """
    return _rounds(torch.nn.functional.pad(first + second, (0, 1)))


def parallel_multiplication(multiplier: Tensor, digits: Tensor, width: int) -> tuple[Tensor, Tensor]:
    """Algorithm 2, corrected: the `width` digits of multiplier (...) times number (..., W), and the rounds (...).

    m_i = multiplier * d_i; then m_j <- (m_j mod 10) + sum over k >= 1 of the k-th decimal digit of m_(j-k), for all j
    at once, while any m_i >= 10. The multiplier is an int64 below 10^17.
    """
    return _rounds(torch.nn.functional.pad(multiplier[..., None] * digits, (0, width - digits.shape[-1])))


def _rounds(columns: Tensor) -> tuple[Tensor, Tensor]:
    """Columns (..., W) of any size, reduced to digits by parallel rounds, and each number's rounds (...)."""
    rounds = torch.zeros_like(columns[..., 0])
    while bool((columns >= 10).any()):
        rounds = rounds + (columns >= 10).any(dim=-1)
        reduced, rest = columns % 10, columns // 10
        k = 1
        while bool((rest > 0).any()):
            reduced = reduced + torch.nn.functional.pad(rest % 10, (k, 0))[..., : columns.shape[-1]]
            rest, k = rest // 10, k + 1
        columns = reduced
    return columns, rounds


def _nearest_decided(sums: Tensor) -> Tensor:
    """Two times the place (from 1) of the nearest pair at or below that does not sum to 9, plus 1 if it carries."""
    place = torch.arange(1, sums.shape[-1] + 1, device=sums.device)
    return torch.where(sums == 9, 0, 2 * place + (sums >= 10)).cummax(dim=-1).values
