"""Choose between a linear and a logarithmic axis for values."""

import math
from typing import Any

import numpy as np

MIN_DECADES_FOR_LOG = 2.0
MAX_LINEAR_FACTOR = 50.0  # between curves that a linear axis keeps apart
LARGE_RATE = 0.1  # of rates up to 1: a linear axis shows it well


def spans_decades(values: np.ndarray[Any, Any]) -> bool:
    """Return whether at least 80 % of the values are positive, span two decades or more, and none is negative."""
    # A few zeros, such as no weight decay, would not justify crowding all other values on a linear axis.
    finite = values[np.isfinite(values)]
    positive = finite[finite > 0]
    if len(positive) < 2 or (finite < 0).any() or len(positive) < 0.8 * len(finite):
        return False
    return bool(math.log10(positive.max() / positive.min()) >= MIN_DECADES_FOR_LOG)


def is_geometric(values: np.ndarray[Any, Any]) -> bool:
    """Return whether there are three or more values, all positive, with nearly equal ratios: 0.001, 0.003, 0.01."""
    distinct_values = np.unique(values[np.isfinite(values)])
    if len(distinct_values) < 3 or distinct_values[0] <= 0:
        return False

    # A factor of 2 tolerates rounded grids, such as 0.001, 0.003, 0.01; equal differences are a linear grid.
    gaps, ratios = np.diff(distinct_values), np.diff(np.log(distinct_values))
    return bool(ratios.max() / ratios.min() < 2 and gaps.max() / gaps.min() > 2)


def is_logarithmic(direction: str, values: np.ndarray[Any, Any]) -> bool:
    """Return whether an axis of outcomes is logarithmic, because they span decades.

    An axis of values to be maximized is linear, because a logarithmic axis would crowd the good values.
    """
    return direction != "maximize" and spans_decades(values)


def are_curves_logarithmic(scale: str, direction: str, values: np.ndarray[Any, Any]) -> bool:
    """Return whether the axis of curves is logarithmic: `scale` is log, or it is auto and the values span decades.

    With auto, the axis of rates from 0 to 1 is linear if one exceeds 0.1, because readers look for the worst rates, at
    the test lengths. An axis without positive values is linear.
    """
    finite = values[np.isfinite(values)]
    if scale == "auto":
        return is_logarithmic(direction, values) and not LARGE_RATE < finite.max() <= 1
    return scale == "log" and bool((finite > 0).any())


def hides_best_curves(direction: str, selection_medians: np.ndarray[Any, Any], values: np.ndarray[Any, Any]) -> bool:
    """Return whether the best of these medians would be one flat line at the bottom of a linear axis.

    Never for values to be maximized, whose best are at the top, and only if all `values` are positive, so that a
    logarithmic axis shows them.
    """
    finite = selection_medians[np.isfinite(selection_medians)]
    if direction == "maximize" or not len(finite) or (values[np.isfinite(values)] <= 0).any():
        return False
    return bool(finite.max() > MAX_LINEAR_FACTOR * finite.min())
