"""Exact two-sided sign and rank tests of two samples with ties and infinities, and Holm's correction.

Dynamic programming counts the null distribution of rank sums exactly. Ranks are doubled, so that the ranks of ties are
whole numbers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import stats

from orchestrator.statistics.quartiles import Floats

ALPHA = 0.05
MAX_EXACT_RANKS = 100  # values up to which rank sums are counted; the time grows with the fourth power


class ExactTest(NamedTuple):
    """The two-sided `p` of a test, and the `smallest_p` that the sample sizes and, for ranks, the ties allow."""

    p: float
    smallest_p: float


def compute_sign_test(differences: Floats) -> ExactTest:
    """Test whether the median of paired differences (n,), without NaN, is zero.

    Differences of zero count for both sides. So the interval between two of the sorted differences
    (`intervals.estimate_median`) excludes zero if and only if p is at most 1 - its coverage.
    """
    # Under the null hypothesis all 2^n arrangements of signs are equally likely; count those at least as uneven.
    n = len(differences)
    rarer_signs = min(int((differences <= 0).sum()), int((differences >= 0).sum()))
    arrangements = sum(math.comb(n, signs) for signs in range(rarer_signs + 1))
    return ExactTest(p=min(1.0, arrangements / 2 ** (n - 1)), smallest_p=min(1.0, 2.0 ** (1 - n)))


def compute_signed_rank_test(differences: Floats) -> ExactTest:
    """Test whether paired differences (n,), without NaN, are distributed symmetrically around zero.

    Wilcoxon's signed-rank statistic over all 2^n assignments of signs (Wilcoxon 1945; Pitman 1937 for the principle).
    This is not a test of the median alone: it also rejects if as many differences are above zero as below it, but the
    positive ones are larger. Differences of zero are left out; if all are zero, p is 1.
    """
    # A rank is positive with probability 1/2, so it averages the distribution with a copy shifted by the rank.
    nonzero = differences[differences != 0]
    ranks = _double_ranks(np.abs(nonzero))
    total, observed = int(ranks.sum()), int(ranks[nonzero > 0].sum())
    probabilities = np.zeros(total + 1)  # by the sum of positive ranks
    probabilities[0] = 1.0
    for rank in ranks.tolist():
        probabilities[rank:] += probabilities[: total + 1 - rank].copy()
        probabilities /= 2

    # Distances from the mean are doubled, so that they are whole numbers and ties compare exactly.
    distances = np.abs(2 * np.arange(total + 1) - total)
    return ExactTest(
        p=_sum_tail(probabilities, distances, abs(2 * observed - total)),
        smallest_p=min(1.0, 2.0 ** (1 - len(nonzero))),
    )


def compute_rank_sum_test(first: Floats, second: Floats) -> ExactTest:
    """Test whether two independent samples, without NaN, come from one distribution.

    This is the rank-sum test of Wilcoxon, Mann and Whitney over all permutations; for more than MAX_EXACT_RANKS values,
    their rank sums count as normal, with a correction for continuity.
    """
    n_first, n = len(first), len(first) + len(second)
    if not n_first or n_first == n:
        return ExactTest(p=1.0, smallest_p=1.0)

    # Each value is either in the first sample, and adds its rank, or in the second.
    ranks = _double_ranks(np.concatenate([first, second]))
    if n > MAX_EXACT_RANKS:
        return _approximate_rank_sum_test(ranks, n_first)
    total, observed = int(ranks.sum()), int(ranks[:n_first].sum())
    permutations = np.zeros((n_first + 1, total + 1))  # by the number of values in the first sample and their rank sum
    permutations[0, 0] = 1.0
    for rank in ranks.tolist():
        permutations[1:, rank:] += permutations[:-1, : total + 1 - rank].copy()

    # The mean rank sum is n_first / n of the total; distances from it are multiplied by n to be whole numbers.
    distances = np.abs(n * np.arange(total + 1) - n_first * total)
    probabilities = permutations[n_first] / permutations[n_first].sum()
    max_distance = int(distances[probabilities > 0].max())
    return ExactTest(
        p=_sum_tail(probabilities, distances, abs(n * observed - n_first * total)),
        smallest_p=_sum_tail(probabilities, distances, max_distance),
    )


def _approximate_rank_sum_test(ranks: npt.NDArray[np.int64], n_first: int) -> ExactTest:
    """Return the rank-sum test of the first ranks against the others by scipy's normal approximation."""

    def compute_p(ranks: npt.NDArray[np.int64]) -> float:
        p = float(stats.mannwhitneyu(ranks[:n_first], ranks[n_first:], method="asymptotic").pvalue)
        return 1.0 if math.isnan(p) else p  # NaN if all values are equal

    # The most uneven samples have the smallest or the largest values in the first.
    ascending = np.sort(ranks)
    return ExactTest(p=compute_p(ranks), smallest_p=min(compute_p(ascending), compute_p(ascending[::-1])))


def correct_by_holm(p: Sequence[float]) -> list[float]:
    """Return the p-values of a family of tests after Holm's correction (Holm 1979); NaN stays NaN and is not counted.

    >>> correct_by_holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    # The running maximum keeps the order of the p-values, which the falling factors could reverse.
    ascending = sorted((value, index) for index, value in enumerate(p) if not math.isnan(value))
    adjusted = [math.nan] * len(p)
    largest = 0.0
    for rank, (value, index) in enumerate(ascending):
        largest = max(largest, min(1.0, (len(ascending) - rank) * value))
        adjusted[index] = largest
    return adjusted


def count_needed_pairs(tests: int) -> int:
    """Return how many pairs a sign test needs so that its p, times the number of `tests`, can reach ALPHA."""
    return math.ceil(1 + math.log2(tests / ALPHA))


def _double_ranks(values: Floats) -> npt.NDArray[np.int64]:
    """Return twice the rank of each value, whole numbers also for ties."""
    return np.asarray(np.rint(2 * stats.rankdata(values)), dtype=np.int64)


def _sum_tail(probabilities: Floats, distances: npt.NDArray[np.int64], min_distance: int) -> float:
    """Return the probability of a distance of at least `min_distance`; at most 1, whatever rounding adds."""
    return min(1.0, float(probabilities[distances >= min_distance].sum()))
