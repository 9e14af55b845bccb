"""Two scores of the same members against each other."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from orchestrator.statistics.design import ADAPTIVE, Design
from orchestrator.statistics.intervals import LEVEL, median
from orchestrator.statistics.quartiles import middle, quartiles
from orchestrator.statistics.within import signed_rank_p

PAIRED_COLUMNS = (
    "first", "second", "members", "unit", "n", "dropped", "median_difference", "low", "high", "q25", "q75",
    "first_smaller", "second_smaller", "ties", "wilcoxon_p", "sign_p", "reason",
)  # fmt: skip


def paired(
    first: pd.Series[float], second: pd.Series[float], design: Design | None = None, *, level: float = LEVEL
) -> dict[str, Any]:
    """Compare two scores of the same members; both are indexed by (config_id, seed), NaN where a member failed.

    Members of a unit of the `design` (default: a configuration) depend on each other, so a unit gives one difference,
    the median of its members'. Returns PAIRED_COLUMNS but the two names: the members with both scores, and those
    dropped for want of one; the quartiles of first - second over members, and on how many of them which one is smaller;
    over the n units the median difference with its interval, and two-sided p of the Wilcoxon signed-rank test and of
    the sign test, which leave out differences of zero; NaN with fewer than two others.
    """
    both = pd.DataFrame({"first": first, "second": second})
    kept = both.dropna()
    design = design or Design.random(kept.index.get_level_values(0).astype("str"))
    x, y = kept["first"].to_numpy(dtype=np.float64), kept["second"].to_numpy(dtype=np.float64)
    difference = np.zeros(len(kept))
    np.subtract(x, y, out=difference, where=x != y)  # equal infinities do not differ
    smaller, larger = int((difference < 0).sum()), int((difference > 0).sum())
    result: dict[str, Any] = dict.fromkeys(PAIRED_COLUMNS[2:], math.nan)
    units: dict[Any, list[float]] = {}
    for (config_id, seed), one in zip(kept.index, difference.tolist(), strict=True):
        units.setdefault(design.unit_of(str(config_id), seed), []).append(one)
    result |= {"members": len(kept), "unit": design.unit, "n": len(units), "dropped": len(both) - len(kept)}
    result |= {"first_smaller": smaller, "second_smaller": larger, "ties": len(kept) - smaller - larger, "reason": None}
    if not len(kept):
        return {**result, "reason": "no member has both scores"}
    q25, _, q75 = quartiles(difference)
    medians = np.array([middle(unit) for unit in units.values()])
    estimate = median(medians, level=level)
    low, high = estimate.ends
    value = math.nan if estimate.value is None else estimate.value
    result |= {"median_difference": value, "q25": q25, "q75": q75, "low": low, "high": high, "reason": estimate.reason}
    if not design.units_are_independent:
        return {**result, "low": math.nan, "high": math.nan, "reason": ADAPTIVE}
    if smaller + larger == 0:
        return {**result, "reason": "no member differs"}
    medians = medians[(medians != 0) & ~np.isnan(medians)]
    if len(medians) < 2:
        return result
    below = int((medians < 0).sum())
    return {
        **result,
        "wilcoxon_p": signed_rank_p(medians),
        "sign_p": float(stats.binomtest(below, len(medians)).pvalue),
    }
