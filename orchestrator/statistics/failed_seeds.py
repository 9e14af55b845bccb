"""How failed seeds count in a median over seeds: the one policy, `objective.failed_seeds`.

A seed failed when it has no number to show (NaN). Policies:
worst    a failed seed counts as the worst possible value, so the median is finite while fewer than half failed
exclude  the median is over the survivors
fail     one failed seed fails the configuration: it has no score, and what else is shown of it is over the survivors
A metric without a better direction has no worst value, and its medians are over the survivors. Without survivors there
is no median.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from orchestrator.statistics.quartiles import Quartiles, quartiles

POLICIES = ("worst", "exclude", "fail")


@dataclass(frozen=True, kw_only=True)
class OverSeeds:
    """Quartiles of one value of each seed, NaN without survivors; they rest on `counted` of the `seeds`."""

    quartiles: Quartiles
    seeds: int
    failed: int
    counted: int

    @property
    def median(self) -> float:
        """The median."""
        return self.quartiles.median


def over_seeds(values: Iterable[float], policy: str, direction: str) -> OverSeeds:
    """Return the quartiles of one value of each seed, NaN for failed ones. Raises ValueError for another policy."""
    of_seeds = np.array(list(values), dtype=np.float64)
    alive = of_seeds[~np.isnan(of_seeds)]
    failed, as_failed = len(of_seeds) - len(alive), stand_in(policy, direction)
    counted = alive if math.isnan(as_failed) else np.append(alive, np.full(failed, as_failed))
    none = Quartiles(math.nan, math.nan, math.nan)
    found = quartiles(counted, worst_value(direction)) if len(alive) else none
    return OverSeeds(quartiles=found, seeds=len(of_seeds), failed=failed, counted=len(counted))


def score_over_seeds(values: Iterable[float], policy: str, direction: str) -> tuple[OverSeeds, bool]:
    """Return the score of a configuration from the scores of its seeds, and whether the configuration failed.

    It fails without survivors, under `fail` with one failed seed. Its quartiles are then NaN under `fail` and the worst
    possible value under the others. Raises ValueError for another policy.
    """
    found = over_seeds(values, policy, direction)
    failed = found.failed == found.seeds or (policy == "fail" and found.failed > 0)
    if not failed:
        return found, False
    none = math.nan if policy == "fail" else worst_value(direction)
    return OverSeeds(quartiles=Quartiles(none, none, none), seeds=found.seeds, failed=found.failed, counted=0), True


def stand_in(policy: str, direction: str) -> float:
    """Return what a failed seed counts as: the worst possible value, or NaN where it is left out of the median.

    Raises ValueError for another policy.
    """
    if policy not in POLICIES:
        raise ValueError(f"failed_seeds is {policy!r}; allowed: {', '.join(POLICIES)}")
    return worst_value(direction) if policy == "worst" and direction in ("minimize", "maximize") else math.nan


def worst_value(direction: str) -> float:
    """Return the worst possible value of a metric: infinite, with the sign that its direction calls worse."""
    return -math.inf if direction == "maximize" else math.inf
