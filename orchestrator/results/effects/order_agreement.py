"""Whether configurations have the same order at the test lengths as by score. Nothing is chosen by it."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from orchestrator.statistics.effects.design import Design
from orchestrator.statistics.intervals import Estimate, spearman

DEPENDENT = {
    "grid_by_random": "configurations that share a draw are not independent",
    "fixed": "the configurations were not drawn",
    "adaptive": "later configurations follow earlier scores",
}  # why configurations are not independent, by the kind of a design


@dataclass(frozen=True, kw_only=True)
class OrderAgreement:
    """The rank `correlation` of both orders, and which configurations are better than the first at the test lengths.

    `better` has the config_id and the gain of each of the `others` with a better median there, the largest gain first
    (infinite if the first has no finite median).
    """

    correlation: Estimate
    others: int
    better: tuple[tuple[str, float], ...]


def order_agreement(
    scores: Mapping[str, float], test: Mapping[str, float], direction: str, design: Design
) -> OrderAgreement:
    """Compare test medians with scores, by config_id; the first key of `scores` is the configuration ranked first.

    Configurations without a test median are left out. The correlation is over configurations, so it has an interval
    only if they were drawn independently.
    """
    names = [name for name in scores if name in test]
    first, sign = test[names[0]], 1.0 if direction == "minimize" else -1.0
    gains = {name: sign * (first - test[name]) for name in names[1:] if sign * test[name] < sign * first}
    correlation = spearman([scores[name] for name in names], [test[name] for name in names])
    if not math.isnan(correlation.low) and design.kind in DEPENDENT:
        correlation = replace(correlation, low=math.nan, high=math.nan, reason=DEPENDENT[design.kind])
    return OrderAgreement(
        correlation=correlation,
        others=len(names) - 1,
        better=tuple(sorted(gains.items(), key=lambda item: -item[1])),
    )
