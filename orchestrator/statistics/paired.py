"""Two scores of the same members against each other."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from orchestrator.statistics.bootstrap import LEVEL, RESAMPLES, bootstrap_clustered_median
from orchestrator.statistics.quartiles import Floats, quartiles

PAIRED_COLUMNS = (
    "first", "second", "n", "configurations", "dropped", "median_difference", "low", "high", "q25", "q75",
    "first_smaller", "second_smaller", "ties", "wilcoxon_p", "sign_p", "reason",
)  # fmt: skip


def paired(
    first: pd.Series[float],
    second: pd.Series[float],
    *,
    level: float = LEVEL,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> dict[str, Any]:
    """Compare two scores of the same members; both are indexed by (config_id, seed), NaN where a member failed.

    Returns PAIRED_COLUMNS but the two names: n members with both scores, their configurations, members dropped for
    want of one; median and quartiles of first - second, with a bootstrap interval over configurations; on how many
    members which one is smaller; two-sided p of the Wilcoxon signed-rank test and of the sign test. Seeds of one
    configuration are not independent, so the tests are on the median difference of each configuration, over those where
    it is not zero; NaN with fewer than two.
    """
    both = pd.DataFrame({"first": first, "second": second})
    kept = both.dropna()
    x, y = kept["first"].to_numpy(dtype=np.float64), kept["second"].to_numpy(dtype=np.float64)
    difference = np.zeros(len(kept))
    np.subtract(x, y, out=difference, where=x != y)  # equal infinities do not differ
    smaller, larger = int((difference < 0).sum()), int((difference > 0).sum())
    result: dict[str, Any] = dict.fromkeys(PAIRED_COLUMNS[2:], math.nan)
    names = kept.index.get_level_values(0).astype("str").to_numpy()
    result |= {"n": len(kept), "configurations": len(set(names)), "dropped": len(both) - len(kept), "reason": None}
    result |= {"first_smaller": smaller, "second_smaller": larger, "ties": len(kept) - smaller - larger}
    if not len(kept):
        return {**result, "reason": "no member has both scores"}
    q25, median, q75 = quartiles(difference)
    clusters = [difference[names == name] for name in dict.fromkeys(names)]
    estimate = bootstrap_clustered_median(clusters, level=level, resamples=resamples, seed=seed)
    low, high = estimate.interval or (math.nan, math.nan)
    result |= {"median_difference": median, "q25": q25, "q75": q75, "low": low, "high": high, "reason": estimate.reason}
    if smaller + larger == 0:
        return {**result, "reason": "no member differs"}
    medians = np.array([quartiles(cluster).median for cluster in clusters])
    medians = medians[(medians != 0) & ~np.isnan(medians)]
    if len(medians) < 2:
        return result
    below = int((medians < 0).sum())
    return {
        **result,
        "wilcoxon_p": _wilcoxon(medians),
        "sign_p": float(stats.binomtest(below, len(medians)).pvalue),
    }


def _wilcoxon(difference: Floats) -> float:
    """Return the two-sided p of the signed-rank test; it looks at signs and ranks only, so infinities may stay."""
    ranks = np.sign(difference) * stats.rankdata(np.abs(difference))
    return float(stats.wilcoxon(ranks).pvalue)
