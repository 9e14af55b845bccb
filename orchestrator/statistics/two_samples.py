"""Two configurations over their seeds: how far apart they are, what is sure of it, and how likely chance does it.

Values are one number for each seed, failed seeds as the policy counts them: infinite, or left out before.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from orchestrator.statistics.exact_tests import rank_sum_test, signed_rank_test
from orchestrator.statistics.intervals import covers, median, order_statistic
from orchestrator.statistics.quartiles import Floats

UNPAIRED_INTERVAL = "seeds that are no pairs have no interval without assumptions about how both configurations spread"


@dataclass(frozen=True, kw_only=True)
class TwoSamples:
    """first - second: `n` pairs of seeds, or `n` and `n_second` seeds that are no pairs (then n_second is not None).

    `difference`: the median of the paired differences, else the difference of the medians; `mean` the same of means,
    NaN where one is infinite. [low, high]: for the median difference, with probability `level` or more; NaN with too
    few pairs, and `reason` says so. On so many pairs the first or the second is smaller, or neither.
    """

    n: int
    n_second: int | None = None
    difference: float = math.nan
    mean: float = math.nan
    low: float = math.nan
    high: float = math.nan
    level: float = math.nan
    first_smaller: int = 0
    second_smaller: int = 0
    ties: int = 0
    p: float = math.nan
    smallest_p: float = math.nan
    reason: str | None = None

    @property
    def paired(self) -> bool:
        """Whether each value of the first was held against one of the second."""
        return self.n_second is None


def compare_pairs(first: Floats, second: Floats) -> TwoSamples:
    """Compare values (n,) of the same seeds, without NaN.

    The interval goes from the k-th smallest to the k-th largest difference and needs no assumption about their
    distribution. In 4,000 samples of 6 to 32 pairs of each of eleven kinds it covered the median in 95.5 to 100 %, with
    levels from 96.1 to 99.2 %; the shorter one from signed ranks, which assumes symmetry, in 88 % where some seeds of
    one configuration fail to learn and all others agree.
    """
    difference = np.zeros(len(first))
    np.subtract(first, second, out=difference, where=first != second)  # equal infinities do not differ
    n = len(difference)
    if not n:
        return TwoSamples(n=0, reason="no seed has a value in both configurations")
    estimate, place = median(difference), order_statistic(n)
    low, high = estimate.interval or (math.nan, math.nan)
    test = signed_rank_test(difference)
    return TwoSamples(
        n=n,
        difference=middle(difference),
        mean=float(difference.mean()) if np.isfinite(difference).all() else math.nan,
        low=low,
        high=high,
        level=math.nan if place is None else covers(n, place),
        first_smaller=int((difference < 0).sum()),
        second_smaller=int((difference > 0).sum()),
        ties=int((difference == 0).sum()),
        p=test.p,
        smallest_p=test.smallest,
        reason=estimate.reason,
    )


def compare_groups(first: Floats, second: Floats) -> TwoSamples:
    """Compare values of seeds that are no pairs, without NaN.

    There is no interval. The usual one, of Hodges and Lehmann, assumes that both configurations spread alike: where one
    spreads ten times as much it covered in 91 to 92 % of 3,000 samples of 8 to 24 seeds, and the difference of medians
    in 75 to 89 % where some seeds fail to learn.
    """
    if not len(first) or not len(second):
        return TwoSamples(n=len(first), n_second=len(second), reason="a configuration has no seed with a value")
    medians = [middle(values) for values in (first, second)]
    everything = np.concatenate([first, second])
    test = rank_sum_test(first, second)
    return TwoSamples(
        n=len(first),
        n_second=len(second),
        difference=0.0 if medians[0] == medians[1] else medians[0] - medians[1],
        mean=float(first.mean() - second.mean()) if np.isfinite(everything).all() else math.nan,
        p=test.p,
        smallest_p=test.smallest,
        reason=UNPAIRED_INTERVAL,
    )


def middle(values: Floats) -> float:
    """Return the median of values without NaN; NaN where it lies between two opposite infinities."""
    with np.errstate(invalid="ignore"):
        return float(np.median(values))
