"""Compare weight averages of the same trained members, at trained, selection and test lengths."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pandas as pd

from orchestrator.statistics.effects.design import Design
from orchestrator.statistics.effects.paired import Paired, compare_members

GROUPS = ("trained", "selection", "test")


@dataclass(frozen=True, kw_only=True)
class Comparison(Paired):
    """An average minus the judged one, member by member, at one group of lengths."""

    group: str
    average: str
    against: str


def compare_averages(
    averages: Sequence[str],
    against: str,
    direction: str,
    scores: Callable[[str, str], "pd.Series[float]"],
    design: Design,
) -> tuple[Comparison, ...]:
    """Compare every other average with one, group by group; groups without a member are left out.

    `scores(average, group)` has a score for every member, indexed by (config_id, seed), NaN where it failed.
    """
    comparisons = []
    for group in GROUPS:
        judged = scores(against, group)
        for average in averages:
            if average != against and len(judged):
                result = compare_members(scores(average, group), judged, design, direction)
                comparisons.append(Comparison(group=group, average=average, against=against, **vars(result)))
    return tuple(comparisons)
