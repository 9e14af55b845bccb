"""Confidence intervals for rank correlations and medians of independent values.

`effects.design` says which units are independent (configurations, draws or seeds). An interval needs a minimal number
of values to have its nominal coverage in simulations (tests/orchestrator/statistics/test_coverage.py).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt
from scipy import stats

from orchestrator.statistics.quartiles import Floats

LEVEL = 0.95
MIN_FOR_MEDIAN = 6  # five values all lie on one side of the true median in more than 5 % of samples
MIN_FOR_CORRELATION = 8
MAX_COMPARISONS = 4_000_000  # pairs that are compared at a time, to limit memory
# The jackknife's variance counts as at least and at most these multiples of the formula's: few values may make it too
# small, and a single value that stands apart may make it huge.
MIN_VARIANCE_RATIO, MAX_VARIANCE_RATIO = 0.64, 3.0


Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """An estimate with its interval from `n` independent values; a missing number is NaN, and `reason` says why.

    An interval of a median covers the true value in at least 95 % of samples (or the given level), an interval of a
    correlation in about 95 %.
    """

    n: int
    value: float = math.nan
    low: float = math.nan
    high: float = math.nan
    reason: str | None = None


def estimate_correlation(
    x: Sequence[float] | Floats, y: Sequence[float] | Floats, units: str = "values", level: float = LEVEL
) -> Estimate:
    """Return Spearman's rank correlation of independent pairs with an interval on Fisher's scale.

    The variance is the mean of two: (1 + r^2 / 2) / (n - 3) of Bonett and Wright (Psychometrika 65, 2000), and the
    jackknife's. The first assumes a bivariate normal distribution; the second assumes nothing, but is noisy for small
    n. Pairs with a NaN are left out; infinities rank as the largest and smallest values, tied among themselves. `units`
    is the plural noun for the pairs in `reason`. A correlation of 1 gets the interval of the next smaller one (two
    neighbours swapped), with 1 as its upper end; for -1 likewise, with -1 as its lower end.
    """
    # Fewer than two pairs, or a constant side, have no correlation at all.
    pairs = np.column_stack([np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)])
    pairs = pairs[~np.isnan(pairs).any(axis=1)]
    n = len(pairs)
    if n < 2:
        return Estimate(n=n, reason=f"{describe_too_few(n, units)} for a correlation")
    if any(len(np.unique(column)) == 1 for column in pairs.T):
        return Estimate(n=n, reason="one side is constant")

    # Few pairs have too low a coverage in simulations, so give no interval.
    value = float(compute_rank_correlations(pairs[None])[0])
    if n < MIN_FOR_CORRELATION:
        return Estimate(n=n, value=value, reason=explain_too_few(n, MIN_FOR_CORRELATION, units))
    (low,), (high,) = compute_correlation_intervals(pairs[None], level)
    return Estimate(n=n, value=value, low=float(low), high=float(high))


def compute_correlation_p(correlation: float, low: float, high: float, n: int) -> float:
    """Return the p-value of a rank correlation of `n` pairs from `estimate_correlation`'s interval.

    It is normal on Fisher's scale and below 0.05 if the interval excludes 0; NaN without an interval.
    """
    if math.isnan(low):
        return math.nan

    # The interval is symmetric on Fisher's scale, so its end on the side of 0 gives back the standard error.
    z = math.atanh(abs(correlation) if abs(correlation) < 1 - 1e-9 else _find_nearest_to_one(n))
    error = (z - math.atanh(low if correlation > 0 else -high)) / stats.norm.ppf((1 + LEVEL) / 2)
    return float(2 * stats.norm.sf(z / error))


def _find_nearest_to_one(n: int) -> float:
    """Return the largest rank correlation below 1 of n pairs without ties, where two neighbours are swapped."""
    return 1 - 12 / (n * (n**2 - 1))


def compute_rank_correlations(samples_RN2: Floats) -> Floats:
    """Return Spearman's correlation (samples,) of each sample (samples, pairs, 2), NaN if one side is constant."""
    ranks = np.asarray(stats.rankdata(samples_RN2, axis=1))
    ranks = ranks - ranks.mean(axis=1, keepdims=True)
    x_RN, y_RN = ranks[..., 0], ranks[..., 1]
    scale_R = np.sqrt((x_RN**2).sum(axis=1) * (y_RN**2).sum(axis=1))
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray((x_RN * y_RN).sum(axis=1) / scale_R)


def compute_correlation_intervals(samples_RN2: Floats, level: float = LEVEL) -> tuple[Floats, Floats]:
    """Return the ends (samples,) of `estimate_correlation`'s interval for each sample (samples, pairs, 2).

    The ends are NaN if the correlation is NaN.
    """
    n = samples_RN2.shape[1]
    r_R = compute_rank_correlations(samples_RN2)

    # Fisher's scale is infinite at +-1, so the largest possible correlation below 1 replaces 1, here and in the samples
    # that leave out one pair.
    nearest = _find_nearest_to_one(n)
    perfect_sign_R = np.where(np.abs(r_R) > 1 - 1e-9, np.sign(r_R), 0.0)  # 1 or -1 for a perfect correlation, else 0
    r_R = np.where(perfect_sign_R, nearest * perfect_sign_R, r_R)
    nearest_without_pair = _find_nearest_to_one(n - 1)
    without_pair_RN = np.clip(np.nan_to_num(_leave_one_out(samples_RN2)), -nearest_without_pair, nearest_without_pair)

    # The jackknife assumes no distribution but is noisy for few pairs, the formula is the reverse: average both.
    jackknife_R = (n - 1) * np.arctanh(without_pair_RN).var(axis=1)
    formula_R = (1 + r_R**2 / 2) / (n - 3)
    bounded_R = np.clip(jackknife_R, MIN_VARIANCE_RATIO * formula_R, MAX_VARIANCE_RATIO * formula_R)
    error_R = np.sqrt((formula_R + bounded_R) / 2)

    # The interval is symmetric on Fisher's scale, and tanh keeps its ends within [-1, 1].
    half_R = stats.norm.ppf((1 + level) / 2) * error_R
    low_R, high_R = np.tanh(np.arctanh(r_R) - half_R), np.tanh(np.arctanh(r_R) + half_R)
    return np.where(perfect_sign_R < 0, -1.0, low_R), np.where(perfect_sign_R > 0, 1.0, high_R)


def _leave_one_out(samples_RN2: Floats) -> Floats:
    """Return the rank correlation of each sample without each of its pairs in turn (samples, pairs).

    Without pair i, a rank falls by 1 if it is above the rank of i, by 1/2 if it is equal. So sums over all pairs are
    corrected by sums over the pairs above i, in whole numbers: ranks are doubled, and falls are 0, 1 or 2. The result
    equals `compute_rank_correlations` of the remaining pairs bit for bit.
    """
    # A table of all falls would have pairs^2 numbers for each sample, so pairs are left out in blocks.
    samples, n, _ = samples_RN2.shape
    x_RN, y_RN = (np.asarray(2 * stats.rankdata(samples_RN2[..., side], axis=1)).astype(np.int64) for side in (0, 1))
    both_RN = np.empty((samples, n), dtype=np.int64)  # sum over all pairs of the fall in x times the fall in y
    block = max(1, MAX_COMPARISONS // max(1, samples * n))
    for rows in (slice(first, first + block) for first in range(0, n, block)):
        both_RN[:, rows] = (_compute_falls(x_RN, rows) * _compute_falls(y_RN, rows)).sum(axis=2, dtype=np.int64)

    # (x - fall)(y - fall) is expanded, so that each term is a sum over all pairs less the term of pair i.
    xy_RN = (x_RN * y_RN).sum(axis=1, keepdims=True) - x_RN * y_RN + both_RN - 1
    xy_RN -= _weigh_falls(x_RN, y_RN) - y_RN + _weigh_falls(y_RN, x_RN) - x_RN
    xx_RN, yy_RN = (
        (rank_RN**2).sum(axis=1, keepdims=True)
        - rank_RN**2
        - 2 * (_weigh_falls(rank_RN, rank_RN) - rank_RN)
        + _sum_squared_falls(rank_RN)
        - 1
        for rank_RN in (x_RN, y_RN)
    )

    # Subtract the product of the means: doubled, the ranks of n - 1 pairs have the mean n.
    mean_product = (n - 1) * n**2
    with np.errstate(invalid="ignore", divide="ignore"):
        covariance_RN, x_variance_RN, y_variance_RN = ((sum_RN - mean_product) / 4 for sum_RN in (xy_RN, xx_RN, yy_RN))
        return np.asarray(covariance_RN / np.sqrt(x_variance_RN * y_variance_RN))


def _compute_falls(rank_RN: Integers, rows: slice) -> npt.NDArray[np.int8]:
    """Return the fall of every doubled rank without each pair of `rows` (samples, rows, pairs)."""
    rank_RBN, removed_RBN = rank_RN[:, None, :], rank_RN[:, rows, None]
    return (rank_RBN > removed_RBN).astype(np.int8) + (rank_RBN >= removed_RBN)


def _sum_squared_falls(rank_RN: Integers) -> Integers:
    """Return the sum over all pairs of the squared falls, for each pair that is left out (samples, pairs)."""
    lowest_RN, highest_RN = _count_lower(rank_RN)
    return 4 * (rank_RN.shape[1] - highest_RN) + highest_RN - lowest_RN


def _weigh_falls(rank_RN: Integers, value_RN: Integers) -> Integers:
    """Return the sum over all pairs of value times fall, for each pair that is left out (samples, pairs)."""
    ordered_RN = np.take_along_axis(value_RN, np.argsort(rank_RN, axis=1, kind="stable"), axis=1)
    sums_RN = np.concatenate([np.zeros_like(ordered_RN[:, :1]), np.cumsum(ordered_RN, axis=1)], axis=1)
    below_RN, up_to_RN = (np.take_along_axis(sums_RN, index_RN, axis=1) for index_RN in _count_lower(rank_RN))
    return 2 * sums_RN[:, -1:] - below_RN - up_to_RN


def _count_lower(rank_RN: Integers) -> tuple[Integers, Integers]:
    """Return the number of ranks below each rank, and the number of ranks below or equal to it."""
    lowest, highest = (np.asarray(stats.rankdata(rank_RN, method=method, axis=1)) for method in ("min", "max"))
    return lowest.astype(np.int64) - 1, highest.astype(np.int64)


def estimate_median(values: Iterable[float] | Floats, units: str = "values", *, level: float = LEVEL) -> Estimate:
    """Return the median of independent values and an interval between two of them with coverage of at least `level`.

    The ends follow from the binomial distribution (David and Nagaraja, Order Statistics, 7.1), for any distribution of
    the values, which may be tied or infinite. The interval excludes 0 if the sign test rejects 0. NaN values are left
    out. `units` is the plural noun for the values in `reason`.
    """
    sample = np.asarray(list(values), dtype=np.float64)
    sample = np.sort(sample[~np.isnan(sample)])
    n = len(sample)
    if not n:
        return Estimate(n=0, reason="no values")
    with np.errstate(invalid="ignore"):  # the mean of opposite infinities is NaN
        value = float(np.median(sample))
    if math.isnan(value):
        return Estimate(n=n, reason="the median is between opposite infinities")

    # Two sorted values are the ends, so the interval needs no assumption about the distribution.
    order = find_order_statistic(n, level)
    needed = max(MIN_FOR_MEDIAN, count_needed_values(level))
    if order is None or n < needed:
        return Estimate(n=n, value=value, reason=explain_too_few(n, needed, units))
    return Estimate(n=n, value=value, low=float(sample[order]), high=float(sample[n - 1 - order]))


def estimate_mean(values: Iterable[float] | Floats, units: str = "values", *, level: float = LEVEL) -> Estimate:
    """Return the mean of independent values with Student's interval; NaN values are left out.

    Its coverage is exactly `level` for normal values, and lower for few values with a heavy tail. `units` is as in
    `estimate_median`. The mean is undefined if a value is infinite.
    """
    sample = np.asarray(list(values), dtype=np.float64)
    sample = sample[~np.isnan(sample)]
    n = len(sample)
    if not n or not np.isfinite(sample).all():
        return Estimate(n=n, reason="a value is infinite" if n else "no values")

    # The mean needs as many values as the median, so that reports treat both alike.
    value = float(sample.mean())
    if n < MIN_FOR_MEDIAN:
        return Estimate(n=n, value=value, reason=explain_too_few(n, MIN_FOR_MEDIAN, units))
    half = float(stats.t.ppf((1 + level) / 2, n - 1) * sample.std(ddof=1) / math.sqrt(n))
    return Estimate(n=n, value=value, low=value - half, high=value + half)


def count_needed_values(level: float) -> int:
    """Return how many values an interval of the median needs for coverage of at least `level`.

    >>> count_needed_values(0.95), count_needed_values(1 - 0.05 / 11)
    (6, 9)
    """
    return math.ceil(1 - math.log2(1 - level))


@cache
def find_order_statistic(n: int, level: float = LEVEL) -> int | None:
    """Return how many of n sorted values an interval of the median leaves out at each end.

    This is the largest number with a coverage of at least `level`; None if even all n values cover less.
    """
    # The quantile of a discrete distribution can be one too large.
    order = int(stats.binom.ppf((1 - level) / 2, n, 0.5))
    while order >= 0 and compute_coverage(n, order) < level:
        order -= 1
    return order if order >= 0 else None


def compute_coverage(n: int, order: int) -> float:
    """Return the probability that the true median lies within n sorted values without `order` of them at each end.

    This is exact for continuous distributions; with ties the probability is at least as large.
    """
    return float(1 - 2 * stats.binom.cdf(order, n, 0.5))


def explain_too_few(n: int, needed: int, units: str) -> str:
    """Return why there is no interval: "4 seeds are too few for an interval (at least 6)"."""
    return f"{describe_too_few(n, units)} for an interval (at least {needed})"


def describe_too_few(n: int, units: str) -> str:
    """Return "4 seeds are too few" for 4 and "seeds", "1 draw is too few" for 1 and "draws"."""
    noun, *qualifiers = units.split()
    if n != 1:
        return f"{n} {units} are too few"
    return " ".join([f"{n} {noun.removesuffix('s')}", *qualifiers, "is too few"])
