"""Digits read back as Python integers."""

from torch import Tensor


def to_integers(digits_NW: Tensor) -> list[int]:
    """Return the numbers of digits (N, W), units first."""
    return [int("".join(str(digit) for digit in reversed(row))) for row in digits_NW.tolist()]
