"""Compare the values of a key within units that have several of them: grid points of a draw, configurations of a seed.

The scores of a unit depend on each other, but its comparisons do not depend on other units. So each unit counts once:
with one difference, one order of values, or one correlation.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from orchestrator.statistics.exact_tests import sign_test
from orchestrator.statistics.intervals import FEWEST_FOR_MEDIAN, Estimate, median, rank_correlations
from orchestrator.statistics.quartiles import Floats, fast_median, median_or_nan

Cells = Mapping[
    Hashable, Mapping[str, Sequence[float]]
]  # context (values of all other compared keys) -> value -> its scores


@dataclass(frozen=True, kw_only=True)
class Difference:
    """The score at `value` minus that at `against`: the median over `n` units with its interval, NaN ends without one.

    `p` is of the sign test, which the interval inverts; NaN without any unit.
    """

    value: str
    against: str
    difference: float
    low: float
    high: float
    n: int
    p: float
    reason: str | None


@dataclass(frozen=True, kw_only=True)
class WithinComparison:
    """A key compared within units: differences from its first value, the order of all values, and their correlation.

    `correlation` is the median over units of the rank correlation of value and score with its interval and the sign
    test's `correlation_p`, for three numbers or more, else NaN. `p` is of Friedman's test over the units with all
    values for three values or more, else of the only difference. `matched` says whether all other compared keys were
    the same.
    """

    differences: tuple[Difference, ...]
    correlation: float
    low: float
    high: float
    correlation_p: float
    p: float
    test: str
    n: int
    matched: bool
    reason: str | None


def compare_within(units: Sequence[Cells], labels: Sequence[str], numeric: bool, unit: str) -> WithinComparison:
    """Compare the values `labels`, in this order; `units` have the scores by context and value.

    `unit` is what they are, in the plural, for the reason why there is no interval.

    Values are compared within a context, and the median over contexts is taken. If no context of any unit has all
    values, contexts are ignored.
    """
    matched = any(len(by_value) == len(labels) for cells in units for by_value in cells.values())
    if not matched:
        units = [_pooled(cells) for cells in units]

    # Differences from the first value, and the tables of units with every value.
    first = labels[0]
    differences = [_differences(units, value, first, unit) for value in labels[1:]]
    tables = [table for cells in units if (table := _table(cells, labels)) is not None]
    blocks = np.array(tables, dtype=np.float64).reshape(len(tables), len(labels))
    n = max((difference.n for difference in differences), default=len(units))
    incomplete = f"none of the {unit} has a score at every value" if not len(blocks) else None

    # The rank correlation of numbers, and a test that any value differs.
    correlation, correlation_p = Estimate(n=0), math.nan
    if numeric and len(labels) > 2:
        by_unit, n = _correlations(blocks), len(blocks)
        correlation, correlation_p = median(by_unit, unit), sign_test(by_unit).p if n else math.nan
    if len(labels) == 2:
        p, test = differences[0].p, "sign test"
    else:
        p, test = _friedman(blocks), "Friedman"
    reasons = [incomplete or correlation.reason, *(difference.reason for difference in differences)]
    if len(labels) < 2:
        reasons = ["it is the same everywhere"]
    return WithinComparison(
        differences=tuple(differences),
        correlation=correlation.value,
        low=correlation.low,
        high=correlation.high,
        correlation_p=correlation_p,
        p=p,
        test=test,
        n=n,
        matched=matched,
        reason=next((reason for reason in reasons if reason), None),
    )


def _pooled(cells: Cells) -> Cells:
    together: dict[str, list[float]] = {}
    for by_value in cells.values():
        for value, scores in by_value.items():
            together.setdefault(value, []).extend(scores)
    return {(): together}


def _differences(units: Sequence[Cells], value: str, first: str, unit: str) -> Difference:
    differences = []
    for cells in units:
        in_unit = [
            difference_of(fast_median(by_value[value]), fast_median(by_value[first]))
            for by_value in cells.values()
            if by_value.get(value) and by_value.get(first)
        ]
        if in_unit:
            differences.append(median_or_nan(in_unit))
    estimate = median(differences, unit)
    known = np.array([value for value in differences if not math.isnan(value)])
    return Difference(
        value=value,
        against=first,
        difference=estimate.value,
        low=estimate.low,
        high=estimate.high,
        n=estimate.n,
        p=sign_test(known).p if len(known) else math.nan,
        reason=estimate.reason,
    )


def _table(cells: Cells, labels: Sequence[str]) -> list[float] | None:
    """Return the score at every value: the median over the contexts with all values, None without any."""
    complete = [by_value for by_value in cells.values() if all(by_value.get(label) for label in labels)]
    if not complete:
        return None
    return [fast_median([fast_median(by_value[label]) for by_value in complete]) for label in labels]


def _correlations(blocks: Floats) -> Floats:
    """Return the rank correlation of value and score in each unit (units, values); 0 if all scores are the same."""
    if not len(blocks):
        return np.zeros(0)
    places = np.broadcast_to(np.arange(blocks.shape[1], dtype=np.float64), blocks.shape)
    return np.nan_to_num(rank_correlations(np.stack([places, blocks], axis=2)))


def _friedman(blocks: Floats) -> float:
    """Return p of Friedman's test in the form of Iman and Davenport (1980); NaN without any difference.

    NaN below six units too, where the F approximation does not hold: with three units of three values, 18 % of samples
    without an effect would have p below 0.05.
    """
    n, k = blocks.shape
    if n < FEWEST_FOR_MEDIAN or k < 3:
        return math.nan
    ranks = np.asarray(stats.rankdata(blocks, axis=1))
    total = ((ranks - (k + 1) / 2) ** 2).sum()
    between = n * ((ranks.mean(axis=0) - (k + 1) / 2) ** 2).sum()
    if not total:
        return math.nan
    if total - between < 1e-9 * total:  # all units have the same order of all with these ties
        ties = np.unique(ranks[0], return_counts=True)[1].tolist()
        orders = math.factorial(k) / math.prod(map(math.factorial, ties))
        return float(orders ** -(n - 1.0))
    return float(stats.f.sf((n - 1) * between / (total - between), k - 1, (n - 1) * (k - 1)))


def difference_of(x: float, y: float) -> float:
    """Return x - y; equal infinities do not differ."""
    return 0.0 if x == y else x - y
