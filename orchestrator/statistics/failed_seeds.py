"""How failed seeds count in a median over seeds: the policies of `objective.failed_seeds`.

A failed seed has the value NaN. Policies:
worst    it counts as the worst possible value, so the median is finite if fewer than half of the seeds failed
exclude  it is left out
fail     the whole configuration fails: it has no score, and its other medians are over the remaining seeds
A metric without a better direction has no worst value, so failed seeds are left out. If all seeds failed there is no
median. A quantile between a number and infinity is infinite: with `worst`, one failed seed of four makes q75 infinite.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from orchestrator.statistics.quartiles import Floats, Quartiles, quartiles, quartiles_of_rows


@dataclass(frozen=True, kw_only=True)
class SeedStatistics:
    """Quartiles over seeds, NaN if all failed; `counted` of the `seeds` are in them, `failed` of them have failed.

    `score` is the median, or another statistic by `score_seeds`; `is_failed`: the whole configuration failed.
    """

    quartiles: Quartiles
    score: float
    seeds: int
    failed: int
    counted: int
    is_failed: bool = False

    @property
    def median(self) -> float:
        """The median."""
        return self.quartiles.median


def summarise_seeds(
    values: Iterable[float], policy: str, direction: str, statistic: Callable[[Floats], float] | None = None
) -> SeedStatistics:
    """Return the quartiles of one value of each seed, NaN for failed ones, and a statistic of them (None: median)."""
    of_seeds = np.array(list(values), dtype=np.float64)
    alive = of_seeds[~np.isnan(of_seeds)]
    failed, as_failed = len(of_seeds) - len(alive), failed_seed_value(policy, direction)
    counted = alive if math.isnan(as_failed) else np.append(alive, np.full(failed, as_failed))
    none = Quartiles(math.nan, math.nan, math.nan)
    computed = quartiles(counted, worst_value(direction)) if len(alive) else none
    score = statistic(counted) if statistic and len(alive) else computed.median
    return SeedStatistics(quartiles=computed, score=score, seeds=len(of_seeds), failed=failed, counted=len(counted))


def score_seeds(
    values: Iterable[float], policy: str, direction: str, statistic: Callable[[Floats], float] | None = None
) -> SeedStatistics:
    """Return the score of a configuration, the median or a statistic, from the scores of its seeds (NaN = failed seed).

    The configuration fails if all seeds failed, under `fail` if one did. Its quartiles are then NaN under `fail` and
    the worst possible value under the others. An infinite score without `is_failed` means that at least half of the
    seeds failed under `worst`.
    """
    outcome = summarise_seeds(values, policy, direction, statistic)
    if outcome.failed < outcome.seeds and (policy != "fail" or not outcome.failed):
        return outcome
    none = math.nan if policy == "fail" else worst_value(direction)
    return replace(outcome, quartiles=Quartiles(none, none, none), score=none, counted=0, is_failed=True)


def quartiles_of_groups(
    values: Floats, seeds: npt.NDArray[np.int64], as_failed: Floats, worst: Floats
) -> tuple[Floats, Floats, Floats]:
    """Return q25, median and q75 of many groups of seeds, each as in `summarise_seeds`; NaN if all seeds failed.

    `values` are those of the first group, then of the next ones; `seeds` counts them in each group. `as_failed` is the
    `failed_seed_value` of each group, `worst` the worst value.
    """
    group, starts = np.repeat(np.arange(len(seeds)), seeds), np.cumsum(seeds) - seeds
    values_GS = np.full((len(seeds), seeds.max()), np.nan)  # NaN where a group has fewer
    values_GS[group, np.arange(len(values)) - starts[group]] = values
    alive = (~np.isnan(values_GS)).sum(axis=1)
    values_GS = np.where(np.isnan(values_GS), as_failed[:, None], values_GS)
    values_GS[np.arange(values_GS.shape[1]) >= seeds[:, None]] = np.nan
    values_GS.sort(axis=1)  # NaN last
    table = quartiles_of_rows(values_GS, np.where(np.isnan(as_failed), alive, seeds), worst)
    q25, median, q75 = (np.where(alive == 0, np.nan, column) for column in table)
    return q25, median, q75


def failed_seed_value(policy: str, direction: str) -> float:
    """Return the value of a failed seed: the worst possible one, or NaN if it is left out of the median."""
    return worst_value(direction) if policy == "worst" and direction in ("minimize", "maximize") else math.nan


def worst_value(direction: str) -> float:
    """Return the worst possible value of a metric: infinity with the sign that is worse."""
    return -math.inf if direction == "maximize" else math.inf
