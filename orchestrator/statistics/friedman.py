"""Rule out treatments by Friedman's test over blocks, as in the F-race of Birattari et al. (2002).

Blocks are seeds and treatments are configurations. Only the order within a block matters, so that seeds may differ in
level and values may be infinite.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import stats

from orchestrator.statistics.exact_tests import compute_signed_rank_test
from orchestrator.statistics.quartiles import Floats


class FriedmanResult(NamedTuple):
    """A mask of the treatments that stay (K,), the rank sums of all (K,), small is good, and the p of the test."""

    stays: npt.NDArray[np.bool_]
    rank_sums: Floats
    p: float


def rule_out_treatments(values_BK: Floats, level: float) -> FriedmanResult:
    """Return the treatments that are not significantly worse than the best; small values_BK are good.

    If Friedman's test (1937, with its correction for ties) is significant, it rules out treatments whose rank sum
    exceeds the best one by more than Conover's critical difference (1999, section 5.8). Two treatments are compared by
    Wilcoxon's signed-rank test. If the test is not significant, all stay. Needs at least two treatments and no NaN.
    """
    # Ranks within blocks cancel differences in level between seeds.
    blocks, treatments = values_BK.shape
    ranks_BK = stats.rankdata(values_BK, axis=1)
    sums_K, squares = ranks_BK.sum(axis=0), float((ranks_BK**2).sum())

    # For two treatments Friedman's test would be a sign test; the signed-rank test also uses sizes of differences.
    if treatments == 2:
        with np.errstate(invalid="ignore"):  # two infinite values
            differences = np.nan_to_num(values_BK[:, 0] - values_BK[:, 1], nan=0.0, posinf=math.inf, neginf=-math.inf)
        p = compute_signed_rank_test(differences).p
        signed_sum = float(np.sign(differences) @ stats.rankdata(np.abs(differences)))
        is_worse = np.array([signed_sum > 0, signed_sum < 0])
        return FriedmanResult(~(is_worse & (p < level)), sums_K, p)

    # Conover's form of Friedman's statistic, which corrects for ties.
    spread = float((sums_K**2).sum())
    centre = blocks * treatments * (treatments + 1) ** 2 / 4
    if squares == centre:  # all values of every block are ties
        return FriedmanResult(np.ones(treatments, dtype=bool), sums_K, 1.0)
    statistic = (treatments - 1) * (spread - blocks * centre) / (squares - centre)
    p = float(stats.chi2.sf(statistic, treatments - 1))
    if not p < level:
        return FriedmanResult(np.ones(treatments, dtype=bool), sums_K, p)

    # The critical difference compares two rank sums at `level`, from the residual variance of the ranks.
    freedom = (blocks - 1) * (treatments - 1)  # 0 for one block, where nothing can be ruled out
    error = max(0.0, 2 * (blocks * squares - spread) / freedom) if freedom else math.inf
    critical = float(stats.t.isf(level / 2, freedom)) * math.sqrt(error) if freedom else math.inf
    return FriedmanResult(sums_K - sums_K.min() <= critical, sums_K, p)
