"""Numbers of any width as digit tensors: sums, products, carries and carry chains (arXiv:2406.01895).

A number is an int64 tensor (..., W) of its W decimal digits, units first, so that fifty digits are as exact as two.
Ids: 0..9 are the digits, PAD fills a number to its width.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from trainers.tensors.numerals import PAD


def split_integers(values: Sequence[int], width: int) -> Tensor:
    """Return the digits (N, width), units first, of N non-negative integers.

    Raises ValueError for a negative integer, or for more digits than `width`.
    """
    rows = []
    for value in values:
        text = str(value)[::-1]
        if value < 0 or len(text) > width:
            raise ValueError(f"{value} does not fit into {width} digits")
        rows.append([int(digit) for digit in text] + [0] * (width - len(text)))
    return torch.tensor(rows, dtype=torch.int64).reshape(len(rows), width)


def find_carries(sums: Tensor) -> Tensor:
    """Return whether each position has a carry out, bool (..., W), from the sums of the digit pairs (..., W).

    It has a carry if the nearest pair at or below it that does not sum to 9 sums to 10 or more.
    """
    return (_find_deciding_pairs(sums) & 1).bool()


def add(first: Tensor, second: Tensor) -> Tensor:
    """Return the digits (..., W + 1) of the sum of two numbers (..., W)."""
    sums = first + second
    carry = find_carries(sums).to(sums.dtype)
    total = torch.nn.functional.pad(sums, (0, 1)) + torch.nn.functional.pad(carry, (1, 0))
    return torch.where(total >= 10, total - 10, total)


def measure_cascade(sums: Tensor) -> Tensor:
    """Return the longest cascade, int64 (...): 1 + the pairs of exactly 9 directly above a pair of 10 or more."""
    deciding = _find_deciding_pairs(sums)
    position = torch.arange(1, sums.shape[-1] + 1, device=sums.device)
    return torch.where((deciding & 1) == 1, position - (deciding >> 1) + 1, 0).amax(dim=-1)


def measure_carry_run(sums: Tensor) -> Tensor:
    """Return the longest run of adjacent pairs that each sum to 10 or more, int64 (...)."""
    position = torch.arange(1, sums.shape[-1] + 1, device=sums.device)
    return (position - torch.where(sums < 10, position, 0).cummax(dim=-1).values).amax(dim=-1)


def multiply(first: Tensor, second: Tensor) -> Tensor:
    """Return the digits (..., W1 + W2) of the product of numbers (..., W1) and (..., W2); fastest with W1 <= W2."""
    # A column of partial products stays far below the limit of int64, so carries can wait until all are added.
    width = first.shape[-1] + second.shape[-1]
    columns = torch.zeros_like(first[..., :1] * second[..., :1]).expand(*second.shape[:-1], width)
    for i in range(first.shape[-1]):
        product = first[..., i : i + 1] * second
        columns = columns + torch.nn.functional.pad(product, (i, width - i - second.shape[-1]))

    digits = []
    carry = torch.zeros_like(columns[..., 0])
    for i in range(width):
        value = columns[..., i] + carry
        carry = value // 10
        digits.append(value - 10 * carry)
    return torch.stack(digits, dim=-1)


def shift_digits(digits: Tensor, by: Tensor) -> Tensor:
    """Return the number (..., W) times ten to the power `by` (...); digits beyond W are lost."""
    source = torch.arange(digits.shape[-1], device=digits.device) - by[..., None]
    return torch.where(source < 0, 0, torch.gather(digits, -1, source.clamp(min=0)))


def count_digits(digits: Tensor) -> Tensor:
    """Return the number of digits without leading zeros, int64 (...); 1 for the number 0."""
    position = torch.arange(1, digits.shape[-1] + 1, device=digits.device)
    return torch.where(digits > 0, position, 0).amax(dim=-1).clamp(min=1)


def write_digits(digits: Tensor, count: Tensor) -> Tensor:
    """Return tokens (..., W) in reading order: pads, then the lowest `count` (...) digits."""
    position = torch.arange(digits.shape[-1], device=digits.device)
    return torch.where(position < count[..., None], digits, PAD).flip(-1)


def read_digits(tokens: Tensor) -> Tensor:
    """Return the digits (..., W), units first, of tokens from `write_digits`."""
    return torch.where(tokens == PAD, 0, tokens).flip(-1)


def multiply_in_parallel(multiplier: Tensor, digits: Tensor, width: int) -> tuple[Tensor, Tensor]:
    """Return the `width` digits of multiplier (...) times number (..., W) and the rounds (...), by algorithm 2.

    m_i = multiplier * d_i; then m_j <- (m_j mod 10) + sum over k >= 1 of the k-th decimal digit of m_(j-k), for all j
    at once, while any m_i >= 10. The multiplier is an int64 below 10^17.

    On a GPU, where the host must not wait, the number of rounds is fixed: m_i has up to 18 digits at first and 3 after
    one round; after the third round it is at most 10, so carries move by a place in each of `width` further rounds.
    """
    columns = torch.nn.functional.pad(multiplier[..., None] * digits, (0, width - digits.shape[-1]))
    rounds = torch.zeros_like(columns[..., 0])
    for number in range(width + 3):
        if _are_all_digits(columns):
            break
        rounds = rounds + (columns >= 10).any(dim=-1)

        # Each column keeps its units and receives the higher digits of the columns below it.
        next_columns = columns % 10
        higher_digits = columns // 10
        for k in range(1, min(width, 3 if number else 18)):
            next_columns = next_columns + torch.nn.functional.pad(higher_digits % 10, (k, 0))[..., :width]
            higher_digits = higher_digits // 10
        columns = next_columns
    return columns, rounds


def _are_all_digits(columns: Tensor) -> bool:
    """Return whether all columns are below 10; always False on a GPU, where the host would have to wait."""
    return columns.device.type == "cpu" and not bool((columns >= 10).any())


def _find_deciding_pairs(sums: Tensor) -> Tensor:
    """Return 2 p + c by position: p, from 1, is the nearest position at or below it whose pair does not sum to 9.

    c is 1 if this pair sums to 10 or more, else 0. Packed in a number, both follow from a single cumulative maximum.
    """
    position = torch.arange(1, sums.shape[-1] + 1, device=sums.device)
    return torch.where(sums == 9, 0, 2 * position + (sums >= 10)).cummax(dim=-1).values
