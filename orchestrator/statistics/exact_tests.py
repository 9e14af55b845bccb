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


class ExactTest(NamedTuple):
    """The two-sided `p` of a test, and the `smallest` p that the sample sizes and, for ranks, the ties allow."""

    p: float
    smallest: float


def sign_test(differences: Floats) -> ExactTest:
    """Test whether the median of paired differences (n,), without NaN, is zero.

    Differences of zero count for both sides, so that p is at most 1 - coverage of the interval between two of the
    sorted differences (`intervals.median`) if and only if that interval excludes zero.
    """
    # Count the arrangements of signs that are at least as uneven.
    n, fewer = len(differences), min(int((differences <= 0).sum()), int((differences >= 0).sum()))
    arrangements = sum(math.comb(n, below) for below in range(fewer + 1))
    return ExactTest(p=min(1.0, arrangements / 2 ** (n - 1)), smallest=min(1.0, 2.0 ** (1 - n)))


def signed_rank_test(differences: Floats) -> ExactTest:
    """Test whether paired differences (n,), without NaN, are distributed symmetrically around zero.

    Wilcoxon's signed-rank statistic over all 2^n assignments of signs (Wilcoxon 1945; Pitman 1937 for the principle).
    This is not a test of the median alone: it also rejects if as many differences are above zero as below it, but the
    positive ones are larger. Differences of zero are left out; if all are zero, p is 1.
    """
    # Compute the probability of each sum of positive ranks.
    nonzero = differences[differences != 0]
    ranks = _double_ranks(np.abs(nonzero))
    total, observed = int(ranks.sum()), int(ranks[nonzero > 0].sum())
    weights = np.zeros(total + 1)
    weights[0] = 1.0
    for rank in ranks.tolist():
        weights[rank:] += weights[: total + 1 - rank].copy()
        weights /= 2

    # p is the share of sums that are at least as far from the mean as the observed one.
    distances = np.abs(2 * np.arange(total + 1) - total)
    return ExactTest(
        p=_sum_tail(weights, distances, abs(2 * observed - total)), smallest=min(1.0, 2.0 ** (1 - len(nonzero)))
    )


def rank_sum_test(first: Floats, second: Floats) -> ExactTest:
    """Test whether two independent samples, without NaN, come from one distribution.

    This is the rank-sum test of Wilcoxon, Mann and Whitney over all permutations.
    """
    count, n = len(first), len(first) + len(second)
    if not count or count == n:
        return ExactTest(p=1.0, smallest=1.0)

    # Count the permutations by rank sum of the first sample.
    ranks = _double_ranks(np.concatenate([first, second]))
    total = int(ranks.sum())
    permutations = np.zeros((count + 1, total + 1))  # by the number of values in the first sample and their rank sum
    permutations[0, 0] = 1.0
    for rank in ranks.tolist():
        permutations[1:, rank:] += permutations[:-1, : total + 1 - rank].copy()

    # p is the share of rank sums that are at least as far from the mean as the observed one.
    distances = np.abs(n * np.arange(total + 1) - count * total)
    weights, observed = permutations[count] / permutations[count].sum(), int(ranks[:count].sum())
    largest = int(distances[weights > 0].max())
    return ExactTest(
        p=_sum_tail(weights, distances, abs(n * observed - count * total)),
        smallest=_sum_tail(weights, distances, largest),
    )


def holm(p: Sequence[float]) -> list[float]:
    """Return the p-values of a family of tests after Holm's correction (Holm 1979); NaN stays NaN and is not counted.

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    # Multiply the p-values in ascending order by the number of remaining tests.
    ascending = sorted((value, index) for index, value in enumerate(p) if not math.isnan(value))
    adjusted, largest = [math.nan] * len(p), 0.0
    for rank, (value, index) in enumerate(ascending):
        largest = max(largest, min(1.0, (len(ascending) - rank) * value))
        adjusted[index] = largest
    return adjusted


def fewest_pairs(tests: int) -> int:
    """Return how many pairs a sign test needs so that its p, times the number of `tests`, can reach ALPHA."""
    return math.ceil(1 + math.log2(tests / ALPHA))


def _double_ranks(values: Floats) -> npt.NDArray[np.int64]:
    """Return twice the rank of each value, whole numbers also for ties."""
    return np.asarray(np.rint(2 * stats.rankdata(values)), dtype=np.int64)


def _sum_tail(weights: Floats, distances: npt.NDArray[np.int64], least: int) -> float:
    """Return the sum of the weights with a distance of at least `least`."""
    return min(1.0, float(weights[distances >= least].sum()))
