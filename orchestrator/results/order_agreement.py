"""Whether the order that selected configurations is their order at the test lengths, without choosing by the second."""

from collections.abc import Mapping
from dataclasses import dataclass

from orchestrator.statistics.intervals import Estimate, spearman


@dataclass(frozen=True, kw_only=True)
class OrderAgreement:
    """The rank `correlation` of both orders, and what is better than the first at the test lengths, the most first.

    `better` has the config_id of each of the `others` with a better median there, and by how much (infinite where the
    first has no finite median).
    """

    correlation: Estimate
    others: int
    better: tuple[tuple[str, float], ...]


def order_agreement(scores: Mapping[str, float], test: Mapping[str, float], direction: str) -> OrderAgreement:
    """Hold the test medians of configurations against their scores, by config_id; the first of `scores` is the first.

    Configurations without a test median are left out.
    """
    names = [name for name in scores if name in test]
    first, sign = test[names[0]], 1.0 if direction == "minimize" else -1.0
    gains = {name: sign * (first - test[name]) for name in names[1:] if sign * test[name] < sign * first}
    return OrderAgreement(
        correlation=spearman([scores[name] for name in names], [test[name] for name in names]),
        others=len(names) - 1,
        better=tuple(sorted(gains.items(), key=lambda item: -item[1])),
    )
