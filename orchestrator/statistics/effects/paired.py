"""Compare two scores of the same members."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import stats

from orchestrator.statistics.effects.design import Design
from orchestrator.statistics.intervals import median
from orchestrator.statistics.quartiles import median_or_nan, quartiles
from orchestrator.statistics.two_samples import subtract_pairs


@dataclass(frozen=True, kw_only=True)
class Paired:
    """first - second of the same members; a missing number is NaN, and `reason` says why.

    `difference` is the median over the `n` units (configurations, draws or seeds) of the median over the members of
    each, with its interval over units; the tests are two-sided, over the same medians. `q25` and `q75` are quartiles
    over `members`. `better`, `worse` and `ties` count the members on which the first is better, worse or equal,
    `dropped` those that lack a score.
    """

    members: int
    unit: str
    n: int
    dropped: int
    difference: float = math.nan
    q25: float = math.nan
    q75: float = math.nan
    low: float = math.nan
    high: float = math.nan
    better: int
    worse: int
    ties: int
    wilcoxon_p: float = math.nan
    sign_p: float = math.nan
    reason: str | None = None


def compare_members(
    first: Mapping[tuple[str, int], float],
    second: Mapping[tuple[str, int], float],
    design: Design | None = None,
    direction: str = "minimize",
) -> Paired:
    """Compare two scores of the same members, each by (config_id, seed), NaN where a member failed.

    Members of one unit of the `design` (default: a configuration) depend on each other, so a unit counts once, with the
    median difference of its members. The tests are Wilcoxon's signed-rank test and the sign test; both leave out
    differences of zero and need two nonzero ones.
    """
    both = {member: (first.get(member, math.nan), second.get(member, math.nan)) for member in {**first, **second}}
    kept = {member: pair for member, pair in both.items() if not any(map(math.isnan, pair))}
    design = design or Design.random(config_id for config_id, _ in kept)
    difference = subtract_pairs(*np.array(list(kept.values()), dtype=np.float64).reshape(-1, 2).T)
    better, worse = int((difference < 0).sum()), int((difference > 0).sum())
    units: dict[Any, list[float]] = {}
    for member, one in zip(kept, difference.tolist(), strict=True):
        units.setdefault(design.member_unit(*member), []).append(one)
    result = Paired(
        members=len(kept),
        unit=design.unit,
        n=len(units),
        dropped=len(both) - len(kept),
        better=better if direction == "minimize" else worse,
        worse=worse if direction == "minimize" else better,
        ties=len(kept) - better - worse,
    )
    if not len(kept):
        return replace(result, reason="no member has both scores")
    q25, _, q75 = quartiles(difference)
    medians = np.array([median_or_nan(unit) for unit in units.values()])
    estimate = median(medians)
    result = replace(result, n=estimate.n, difference=estimate.value, q25=q25, q75=q75, reason=estimate.reason)
    if not design.units_are_independent:
        return replace(result, reason=design.dependence)
    result = replace(result, low=estimate.low, high=estimate.high)
    if not difference.any():
        return replace(result, reason="no member differs")
    medians = medians[(medians != 0) & ~np.isnan(medians)]
    if len(medians) < 2:
        return result
    sign = stats.binomtest(int((medians < 0).sum()), len(medians))
    ranks = np.sign(medians) * stats.rankdata(np.abs(medians))  # of signs and ranks only, so infinities may stay
    return replace(result, wilcoxon_p=float(stats.wilcoxon(ranks).pvalue), sign_p=float(sign.pvalue))
