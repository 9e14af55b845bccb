"""Intervals for rank correlations and medians of independent values, and what to say when there are too few of them.

What is independent (configurations, draws or seeds) is for `design` to say. An interval is given from the number on at
which simulations find that it covers as often as it says (tests/orchestrator/statistics/test_coverage.py).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from scipy import stats

from orchestrator.statistics.quartiles import Floats, middle

LEVEL = 0.95
FEWEST_FOR_MEDIAN = 6  # of five values all lie on one side of their median more often than in 5 of 100 samples
FEWEST_FOR_CORRELATION = 8
LEAST_RATIO = 0.8  # of the jackknife's standard error to that of the formula: with few values it is too small by chance
CELLS_AT_ONCE = 2**20  # pairs that are ranked at once where each pair is left out in turn


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """A number, its interval, and the `n` independent values it rests on; `reason` says why one of them is missing.

    The interval of a median covers in at least `level` of all samples, that of a correlation in about `level`.
    """

    value: float | None
    interval: tuple[float, float] | None
    n: int
    level: float = LEVEL
    reason: str | None = None

    @property
    def ends(self) -> tuple[float, float]:
        """The interval, NaN at both ends where there is none."""
        return self.interval or (math.nan, math.nan)


def spearman(x: Sequence[float] | Floats, y: Sequence[float] | Floats, *, level: float = LEVEL) -> Estimate:
    """Return the rank correlation of independent pairs with an interval on Fisher's scale.

    Its variance is the mean of two: (1 + r^2 / 2) / (n - 3) of Bonett and Wright (Psychometrika 65, 2000), which counts
    on a bivariate normal, and that of the jackknife, which counts on nothing and is unsteady for small n. Pairs with a
    NaN are left out; infinities rank as the largest and smallest values, tied among themselves.
    """
    pairs = np.column_stack([np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)])
    pairs = pairs[~np.isnan(pairs).any(axis=1)]
    n = len(pairs)
    if n < 2:
        return Estimate(value=None, interval=None, n=n, level=level, reason=f"n = {n} is too few for a correlation")
    if any(len(np.unique(column)) == 1 for column in pairs.T):
        return Estimate(value=None, interval=None, n=n, level=level, reason="one side is the same everywhere")
    value = float(rank_correlations(pairs[None])[0])
    if n < FEWEST_FOR_CORRELATION:
        return Estimate(value=value, interval=None, n=n, level=level, reason=too_few(n, FEWEST_FOR_CORRELATION))
    if abs(value) > 1 - 1e-9:
        reason = "the order is the same on both sides, so nothing is left over to judge it by"
        return Estimate(value=value, interval=None, n=n, level=level, reason=reason)
    (low,), (high,) = correlation_intervals(pairs[None], level)
    return Estimate(value=value, interval=(float(low), float(high)), n=n, level=level)


def rank_correlations(samples_RN2: Floats) -> Floats:
    """Return Spearman's correlation of each sample (samples, pairs, 2), NaN where one side is constant."""
    ranks = np.asarray(stats.rankdata(samples_RN2, axis=1))
    ranks = ranks - ranks.mean(axis=1, keepdims=True)
    x_RN, y_RN = ranks[..., 0], ranks[..., 1]
    scale_R = np.sqrt((x_RN**2).sum(axis=1) * (y_RN**2).sum(axis=1))
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray((x_RN * y_RN).sum(axis=1) / scale_R)


def correlation_intervals(samples_RN2: Floats, level: float = LEVEL) -> tuple[Floats, Floats]:
    """Return the ends of `spearman`'s interval for each sample; samples whose correlation is +-1 or NaN have none."""
    n = samples_RN2.shape[1]
    r_R = rank_correlations(samples_RN2)
    r_R = np.where(np.abs(r_R) > 1 - 1e-9, np.nan, r_R)
    without = _correlations_without_one(samples_RN2)
    nearest = 1 - 12 / ((n - 1) * ((n - 1) ** 2 - 1))  # to 1, for n - 1 values: a perfect order would be infinitely far
    z_RN = np.arctanh(np.clip(np.nan_to_num(without), -nearest, nearest))
    jackknife_R = (n - 1) * z_RN.var(axis=1)
    formula_R = (1 + r_R**2 / 2) / (n - 3)
    error_R = np.sqrt((formula_R + np.maximum(jackknife_R, LEAST_RATIO**2 * formula_R)) / 2)
    half_R = stats.norm.ppf((1 + level) / 2) * error_R
    return np.tanh(np.arctanh(r_R) - half_R), np.tanh(np.arctanh(r_R) + half_R)


def _correlations_without_one(samples_RN2: Floats) -> Floats:
    """The rank correlation of each sample without each of its pairs (samples, pairs), many of them ranked at once."""
    samples, n = samples_RN2.shape[:2]
    kept_NK = np.arange(n - 1) + (np.arange(n - 1) >= np.arange(n)[:, None])
    at_once = max(1, CELLS_AT_ONCE // max(1, samples * n))
    parts = [samples_RN2[:, kept_NK[begin : begin + at_once]] for begin in range(0, n, at_once)]
    found = [rank_correlations(part.reshape(-1, n - 1, 2)).reshape(samples, -1) for part in parts]
    return np.concatenate(found, axis=1)


def median(values: Iterable[float] | Floats, *, level: float = LEVEL) -> Estimate:
    """Return the median of independent values with the interval between two of them that covers in at least `level`.

    Which two follows from the binomial distribution (David and Nagaraja, Order Statistics, 7.1), so nothing is asked
    of the values: they may be tied, infinite or all-or-nothing. It excludes 0 when the sign test rejects 0. NaN values
    are left out.
    """
    sample = np.asarray(list(values), dtype=np.float64)
    sample = np.sort(sample[~np.isnan(sample)])
    n = len(sample)
    if not n:
        return Estimate(value=None, interval=None, n=0, level=level, reason="no values")
    with np.errstate(invalid="ignore"):
        value = float(np.median(sample))
    if math.isnan(value):
        return Estimate(value=None, interval=None, n=n, level=level, reason="the middle lies between two infinities")
    place = order_statistic(n, level)
    if place is None or n < FEWEST_FOR_MEDIAN:
        return Estimate(value=value, interval=None, n=n, level=level, reason=too_few(n, FEWEST_FOR_MEDIAN))
    ends = float(sample[place]), float(sample[n - 1 - place])
    return Estimate(value=value, interval=ends, n=n, level=level)


@cache
def order_statistic(n: int, level: float = LEVEL) -> int | None:
    """Return how many values to leave out at either end of n sorted ones, so that their median is between the others.

    The most that leave a coverage of at least `level`; None where all n values cover less than that.
    """
    place = int(stats.binom.ppf((1 - level) / 2, n, 0.5))  # the least with P(fewer values below or here) >= the tail
    while place >= 0 and covers(n, place) < level:
        place -= 1
    return place if place >= 0 else None


def covers(n: int, place: int) -> float:
    """Return how often the median of a continuous distribution is between n sorted values without `place` at each end.

    With ties it is at least as often.
    """
    return float(1 - 2 * stats.binom.cdf(place, n, 0.5))


def median_over(units: Iterable[Floats], *, level: float = LEVEL) -> Estimate:
    """Return the `median` of the medians of units, which are independent of each other: configurations, draws, seeds.

    A unit's values, such as one for each seed, are without NaN and may depend on each other.
    """
    return median([middle(unit.tolist()) for unit in units], level=level)


def too_few(n: int, fewest: int) -> str:
    """Return why there is no interval."""
    return f"n = {n} is too few for an interval (at least {fewest})"
