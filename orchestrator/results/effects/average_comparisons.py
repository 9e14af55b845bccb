"""Weight averages of the same trajectories against the one that is judged, at trained, selection and test lengths."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pandas as pd

from orchestrator.statistics.design import Design
from orchestrator.statistics.paired import paired

GROUPS = ("trained", "selection", "test")


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """An average against the objective's, member by member, at one group of lengths.

    `difference` is the median over the `n` units (configurations, draws or seeds) of the median of average - against
    over the members of each, with its 95 % interval over units; the tests are two-sided, over the same medians. `q25`
    and `q75` are quartiles over `members`, of which the average is `better` on some and worse on others.
    """

    group: str
    average: str
    against: str
    members: int
    unit: str
    n: int
    dropped: int
    difference: float
    q25: float
    q75: float
    low: float
    high: float
    better: int
    worse: int
    ties: int
    wilcoxon_p: float
    sign_p: float
    reason: str | None


def compare_averages(
    averages: Sequence[str],
    against: str,
    direction: str,
    scores: Callable[[str, str], "pd.Series[float]"],
    design: Design,
) -> tuple[Comparison, ...]:
    """Every other average against one, group by group; groups without a member are left out.

    `scores(average, group)` has a score for every member, indexed by (config_id, seed), NaN where it failed.
    """
    found = []
    smaller_is_better = direction == "minimize"
    for group in GROUPS:
        judged = scores(against, group)
        for average in averages:
            if average == against or not len(judged):
                continue
            row = paired(scores(average, group), judged, design)
            found.append(
                Comparison(
                    group=group,
                    average=average,
                    against=against,
                    members=row["members"],
                    unit=row["unit"],
                    n=row["n"],
                    dropped=row["dropped"],
                    difference=row["median_difference"],
                    q25=row["q25"],
                    q75=row["q75"],
                    low=row["low"],
                    high=row["high"],
                    better=row["first_smaller" if smaller_is_better else "second_smaller"],
                    worse=row["second_smaller" if smaller_is_better else "first_smaller"],
                    ties=row["ties"],
                    wilcoxon_p=row["wilcoxon_p"],
                    sign_p=row["sign_p"],
                    reason=row["reason"],
                )
            )
    return tuple(found)
