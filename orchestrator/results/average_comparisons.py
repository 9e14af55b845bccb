"""Weight averages of the same trajectories against the one that is judged, at trained, selection and test lengths."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pandas as pd

from orchestrator.statistics.paired import paired

GROUPS = ("trained", "selection", "test")


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """An average against the objective's, member by member, at one group of lengths.

    `difference` is the median of average - against with its 95 % interval over configurations, `q25` and `q75` its
    quartiles over members; the tests are two-sided, over the median difference of each configuration.
    """

    group: str
    average: str
    against: str
    n: int
    configurations: int
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
            row = paired(scores(average, group), judged)
            found.append(
                Comparison(
                    group=group,
                    average=average,
                    against=against,
                    n=row["n"],
                    configurations=row["configurations"],
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
