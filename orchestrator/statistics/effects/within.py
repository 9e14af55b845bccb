"""Compare the values of a key within units: grid points of a draw, or configurations of a seed.

Scores of a unit depend on each other, but comparisons within a unit do not depend on other units. So each unit counts
once: with one difference, one order of values, or one correlation.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from orchestrator.statistics.exact_tests import compute_sign_test
from orchestrator.statistics.intervals import MIN_FOR_MEDIAN, Estimate, compute_rank_correlations, estimate_median
from orchestrator.statistics.quartiles import Floats, compute_median, compute_median_or_nan

Cells = Mapping[Hashable, Mapping[str, Sequence[float]]]
"""The scores of a unit by context (the values of all other compared keys) and value."""


@dataclass(frozen=True, kw_only=True)
class Difference:
    """The score at `value` minus the score at `against`: the median over `n` units with its interval.

    `p` is the p-value of the sign test, which the interval inverts. Missing numbers are NaN, and `reason` says why.
    """

    value: str
    against: str
    median: float
    low: float
    high: float
    n: int
    p: float
    reason: str | None


@dataclass(frozen=True, kw_only=True)
class WithinComparison:
    """The values of a key compared within units: differences from the first value, a test, and a correlation.

    `correlation` is the median over units of the rank correlation of value and score, with its interval and the sign
    test's `correlation_p`, for three or more numbers, else NaN. `p` comes from Friedman's test over units with all
    values for three or more values, else from the only difference. `matched` is True if the values of all other
    compared keys were equal.
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
    """Compare the values `labels`, in this order, within `units`, which have the scores by context and value.

    Values are compared within each context, and the median over contexts counts. If no context of any unit has all
    values, contexts are ignored. `reason` names the units by the plural `unit`.
    """
    # Listed configurations may differ in several keys at once; then no context is complete, and all are pooled.
    matched = any(len(by_value) == len(labels) for cells in units for by_value in cells.values())
    if not matched:
        units = [_pool_contexts(cells) for cells in units]

    # A difference needs the two values of a unit; Friedman's test and correlations need all of them.
    first = labels[0]
    differences = [_compare_values(units, value, first, unit) for value in labels[1:]]
    rows = [row for cells in units if (row := _score_values(cells, labels)) is not None]
    blocks = np.array(rows, dtype=np.float64).reshape(len(rows), len(labels))
    n = len(blocks) if len(labels) > 2 else max((difference.n for difference in differences), default=len(units))
    incomplete = f"none of the {unit} has a score at every value" if not len(blocks) else None

    # Two numbers have only the correlations 1, 0 and -1, which the sign test of their difference already covers.
    correlation, correlation_p = Estimate(n=0), math.nan
    if numeric and len(labels) > 2:
        unit_correlations = _correlate_rows(blocks)
        correlation = estimate_median(unit_correlations, unit)
        correlation_p = compute_sign_test(unit_correlations).p if len(blocks) else math.nan
    if len(labels) == 2:
        p, test = differences[0].p, "sign test"
    else:
        p, test = _test_friedman(blocks), "Friedman"

    # Only the reason of the most general problem is shown.
    reasons = [incomplete or correlation.reason, *(difference.reason for difference in differences)]
    if len(labels) < 2:
        reasons = ["constant"]
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


def _pool_contexts(cells: Cells) -> Cells:
    """Return the scores of a unit by value, in a single empty context."""
    pooled: dict[str, list[float]] = {}
    for by_value in cells.values():
        for value, scores in by_value.items():
            pooled.setdefault(value, []).extend(scores)
    return {(): pooled}


def _compare_values(units: Sequence[Cells], value: str, first: str, unit: str) -> Difference:
    """Return the difference between two values over units."""
    # A unit counts once, however many contexts it has: with the median of their differences.
    differences = []
    for cells in units:
        context_differences = [
            subtract_scores(compute_median(by_value[value]), compute_median(by_value[first]))
            for by_value in cells.values()
            if by_value.get(value) and by_value.get(first)
        ]
        if context_differences:
            differences.append(compute_median_or_nan(context_differences))

    # Opposite infinities have no difference.
    estimate = estimate_median(differences, unit)
    defined = np.array([value for value in differences if not math.isnan(value)])
    return Difference(
        value=value,
        against=first,
        median=estimate.value,
        low=estimate.low,
        high=estimate.high,
        n=estimate.n,
        p=compute_sign_test(defined).p if len(defined) else math.nan,
        reason=estimate.reason,
    )


def _score_values(cells: Cells, labels: Sequence[str]) -> list[float] | None:
    """Return the score at every value, the median over contexts that have all values; None without such a context."""
    complete_contexts = [by_value for by_value in cells.values() if all(by_value.get(label) for label in labels)]
    if not complete_contexts:
        return None
    return [compute_median([compute_median(by_value[label]) for by_value in complete_contexts]) for label in labels]


def _correlate_rows(blocks: Floats) -> Floats:
    """Return the rank correlation (units,) of value and score in `blocks` (units, values); 0 for equal scores."""
    if not len(blocks):
        return np.zeros(0)
    positions = np.broadcast_to(np.arange(blocks.shape[1], dtype=np.float64), blocks.shape)
    return np.nan_to_num(compute_rank_correlations(np.stack([positions, blocks], axis=2)))


def _test_friedman(blocks: Floats) -> float:
    """Return p of Friedman's test in the form of Iman and Davenport (1980); NaN if no scores differ.

    NaN below six units, where the F approximation is wrong: with three units of three values, 18 % of samples without
    an effect would have p below 0.05.
    """
    n, k = blocks.shape
    if n < MIN_FOR_MEDIAN or k < 3:
        return math.nan

    # The F statistic compares the variation of ranks between values with the rest.
    ranks = np.asarray(stats.rankdata(blocks, axis=1))
    total_variation = ((ranks - (k + 1) / 2) ** 2).sum()
    variation_between = n * ((ranks.mean(axis=0) - (k + 1) / 2) ** 2).sum()
    if not total_variation:
        return math.nan

    # If all units have the same order of values, with the same ties, the rest is 0 and F infinite, but p is known.
    if total_variation - variation_between < 1e-9 * total_variation:
        ties = np.unique(ranks[0], return_counts=True)[1].tolist()
        log_orders = math.lgamma(k + 1) - sum(math.lgamma(tie + 1) for tie in ties)
        return math.exp(-(n - 1.0) * log_orders)
    statistic = (n - 1) * variation_between / (total_variation - variation_between)
    return float(stats.f.sf(statistic, k - 1, (n - 1) * (k - 1)))


def subtract_scores(x: float, y: float) -> float:
    """Return x - y; 0 for equal infinities."""
    return 0.0 if x == y else x - y
