"""Quartiles of numbers, some of which may be infinite; always in the order q25, median, q75."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
FRACTIONS = (0.25, 0.5, 0.75)


class Quartiles(NamedTuple):
    """Median and quartiles; infinite if failed seeds determine them, NaN without values."""

    q25: float
    median: float
    q75: float


def compute_quartiles(values: Floats, worst: float = math.inf) -> Quartiles:
    """Return q25, median, q75 of at least one value, without NaN.

    Linear interpolation, bit for bit as `numpy.quantile` on finite values. A quantile between a finite and an infinite
    value is infinite, a quantile between two opposite infinities is `worst`, so NaN never appears.
    """
    ordered: list[float] = np.sort(values).tolist()
    return Quartiles(*(compute_quantile(ordered, fraction, worst) for fraction in FRACTIONS))


def compute_median(values: Sequence[float]) -> float:
    """Return the median as `compute_quartiles` does, ten times faster for few values; needs at least one."""
    ordered = sorted(values)
    low, high = ordered[(len(ordered) - 1) // 2], ordered[len(ordered) // 2]

    # Infinities are not averaged, because opposite ones would give NaN.
    if low == high or math.isinf(high):
        return high
    return low if math.isinf(low) else (low + high) / 2


def compute_median_or_nan(values: Sequence[float] | Floats) -> float:
    """Return the median of values without NaN; NaN if empty or between two opposite infinities."""
    if not len(values):
        return math.nan
    ordered: list[float] = sorted(map(float, values))
    low, high = ordered[(len(ordered) - 1) // 2], ordered[len(ordered) // 2]
    return low if low == high else (low + high) / 2


def compute_quantile(ordered: Sequence[float], fraction: float, worst: float) -> float:
    """Return a quantile of at least one ascending value; between opposite infinities it is `worst`."""
    # The quantile lies between two neighbouring values.
    position = fraction * (len(ordered) - 1)
    low, high = ordered[math.floor(position)], ordered[math.ceil(position)]
    weight = position - math.floor(position)
    if low == high or weight == 0:
        return low

    # Arithmetic with infinities would give NaN.
    if math.isinf(low):
        return (-math.inf if worst < 0 else math.inf) if math.isinf(high) else low
    if math.isinf(high):
        return high

    # numpy's order of operations, for the same bits.
    if fraction == 0.5:
        return (low + high) / 2
    step = high - low
    return low + step * weight if weight < 0.5 else high - step * (1 - weight)


def compute_row_quartiles(
    values_GS: Floats, counts: npt.NDArray[np.int64], worst: Floats
) -> tuple[Floats, Floats, Floats]:
    """Return q25, median, q75, each (G,), of the first `counts` (G,) ascending numbers of each row.

    Each row has the result of `compute_quartiles`, bit for bit.
    """
    low, middle, high = (_compute_row_quantile(values_GS, counts, fraction, worst) for fraction in FRACTIONS)
    return low, middle, high


def _compute_row_quantile(values_GS: Floats, counts: npt.NDArray[np.int64], fraction: float, worst: Floats) -> Floats:
    """Return the quantile (G,) of the first `counts` (G,) ascending numbers of each row."""
    # The quantile of a row lies between two neighbouring values; rows that count no value get any, unused.
    position = fraction * (np.maximum(counts, 1) - 1)
    lower_index, upper_index = (edge(position).astype(np.int64)[:, None] for edge in (np.floor, np.ceil))
    low, high = (np.take_along_axis(values_GS, index, axis=1)[:, 0] for index in (lower_index, upper_index))
    weight = position - lower_index[:, 0]

    # The cases of `compute_quantile`, computed for all rows and selected by masks.
    with np.errstate(invalid="ignore"):
        step = high - low
        interpolated = np.where(weight < 0.5, low + step * weight, high - step * (1 - weight))
        if fraction == 0.5:
            interpolated = (low + high) / 2
    interpolated = np.where(np.isinf(high), high, np.where(np.isinf(low), low, interpolated))
    interpolated = np.where(np.isinf(low) & np.isinf(high), np.where(worst < 0, -np.inf, np.inf), interpolated)
    return np.asarray(np.where((low == high) | (weight == 0), low, interpolated))
