"""What a header says of an array, held against what a file may hold: the file may have been made by anybody."""

from collections.abc import Mapping
from math import prod
from typing import Any, NamedTuple

import numpy as np

DTYPES = frozenset(
    np.dtype(order + code).str
    for order in "<>"
    for code in ("b1", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8")
)
_MOST_DIMENSIONS = 32


class Described(NamedTuple):
    """Kind, shape and size in bytes of an array."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    bytes: int


def described(entry: Any, available: int) -> Described:
    """The array that an entry of a header describes by `dtype` and `shape`, in a file of `available` bytes.

    Nothing is allocated. Raises ValueError for anything but numbers, and for more bytes than there are.
    """
    if not isinstance(entry, Mapping):
        raise ValueError(f"its header describes an array by {entry!r}")
    dtype, shape = entry.get("dtype"), entry.get("shape")
    if not isinstance(dtype, str) or dtype not in DTYPES:
        raise ValueError(f"its header has an array of dtype {dtype!r}")
    if not isinstance(shape, list) or len(shape) > _MOST_DIMENSIONS or not all(is_count(size) for size in shape):
        raise ValueError(f"its header has an array of shape {shape!r}")
    kind = np.dtype(dtype)
    size = prod(shape) * kind.itemsize  # of Python's integers, which do not overflow
    if size > available or max(shape, default=0) > available:
        raise ValueError(f"its header has an array of {size} bytes, more than the file has")
    return Described(kind, tuple(shape), size)


def is_count(value: Any) -> bool:
    """Whether a value is a whole number, not negative, and not larger than any index can be."""
    return type(value) is int and 0 <= value < 2**63
