"""Handle failed seeds in statistics over seeds, by the policies of `objective.failed_seeds`.

A failed seed has the value NaN. Policies:
worst    a failed seed counts as the worst possible value: the median is finite if fewer than half of the seeds failed
exclude  a failed seed is left out
fail     the configuration fails: it has no score, and its other medians are over the remaining seeds
Failed seeds of a metric without a better direction are left out. If all seeds failed, the median is NaN. A quantile
between a number and infinity is infinite: with `worst`, one failed seed of four makes q75 infinite.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from orchestrator.statistics.quartiles import Floats, Quartiles, compute_quartiles, compute_row_quartiles


@dataclass(frozen=True, kw_only=True)
class SeedStatistics:
    """Quartiles over the seeds of a configuration, and a statistic of them."""

    quartiles: Quartiles  # NaN if all seeds failed
    score: float  # the statistic, by default the median
    seed_count: int  # all seeds
    failed_count: int
    value_count: int  # values in the quartiles
    is_failed: bool = False  # whether the configuration failed

    @property
    def median(self) -> float:
        """The median."""
        return self.quartiles.median


def get_sign(direction: str) -> float:
    """Return the factor that makes smaller values better: 1 for "minimize", -1 for "maximize"."""
    return 1.0 if direction == "minimize" else -1.0


def summarize_seeds(
    values: Iterable[float], policy: str, direction: str, statistic: Callable[[Floats], float] | None = None
) -> SeedStatistics:
    """Return quartiles and a statistic (None: median) of one value per seed, NaN for a failed seed."""
    # NaN as the value of a failed seed means that failed seeds are left out.
    seed_values = np.array(list(values), dtype=np.float64)
    alive_values = seed_values[~np.isnan(seed_values)]
    failed_count = len(seed_values) - len(alive_values)
    failed_value = get_failed_seed_value(policy, direction)
    counted_values = (
        alive_values if math.isnan(failed_value) else np.append(alive_values, np.full(failed_count, failed_value))
    )

    # If every seed failed, their values say nothing about the configuration: the statistics are NaN.
    undefined = Quartiles(math.nan, math.nan, math.nan)
    computed = compute_quartiles(counted_values, get_worst_value(direction)) if len(alive_values) else undefined
    score = statistic(counted_values) if statistic and len(alive_values) else computed.median
    return SeedStatistics(
        quartiles=computed,
        score=score,
        seed_count=len(seed_values),
        failed_count=failed_count,
        value_count=len(counted_values),
    )


def score_seeds(
    values: Iterable[float], policy: str, direction: str, statistic: Callable[[Floats], float] | None = None
) -> SeedStatistics:
    """Return the score of a configuration: a statistic (None: median) of the scores of its seeds, NaN if failed.

    A configuration fails if all seeds failed, or under `fail` if any seed did. Then its score and quartiles are NaN
    under `fail` and the worst possible value otherwise. An infinite median without `is_failed` means that at least half
    of the seeds failed under `worst`.
    """
    outcome = summarize_seeds(values, policy, direction, statistic)
    if outcome.failed_count < outcome.seed_count and (policy != "fail" or not outcome.failed_count):
        return outcome

    # Statistics over the remaining seeds would flatter a failed configuration.
    score = math.nan if policy == "fail" else get_worst_value(direction)
    return replace(outcome, quartiles=Quartiles(score, score, score), score=score, value_count=0, is_failed=True)


def compute_group_quartiles(
    values: Floats, sizes_G: npt.NDArray[np.int64], failed_values: Floats, worst_values: Floats
) -> tuple[Floats, Floats, Floats]:
    """Return q25, median and q75 of many groups of seeds, each as in `summarize_seeds`; NaN if all seeds failed.

    `values` has the groups one after the other, `sizes_G` (G,) their sizes, `failed_values` (G,) the result of
    `get_failed_seed_value` for each group, `worst_values` (G,) its worst value. Each result is (G,).
    """
    # Groups have different sizes, so each becomes a row that is padded with NaN.
    group = np.repeat(np.arange(len(sizes_G)), sizes_G)
    starts = np.cumsum(sizes_G) - sizes_G
    values_GS = np.full((len(sizes_G), sizes_G.max()), np.nan)  # NaN beyond the seeds of a group
    values_GS[group, np.arange(len(values)) - starts[group]] = values

    # Padding is NaN again after failed seeds got their value, because NaN is sorted last and not counted.
    alive_counts = (~np.isnan(values_GS)).sum(axis=1)
    values_GS = np.where(np.isnan(values_GS), failed_values[:, None], values_GS)
    values_GS[np.arange(values_GS.shape[1]) >= sizes_G[:, None]] = np.nan
    values_GS.sort(axis=1)
    table = compute_row_quartiles(values_GS, np.where(np.isnan(failed_values), alive_counts, sizes_G), worst_values)
    q25, median, q75 = (np.where(alive_counts == 0, np.nan, column) for column in table)
    return q25, median, q75


def get_failed_seed_value(policy: str, direction: str) -> float:
    """Return the value that a failed seed counts as: the worst possible one, or NaN if it is left out."""
    return get_worst_value(direction) if policy == "worst" and direction in ("minimize", "maximize") else math.nan


def get_worst_value(direction: str) -> float:
    """Return the worst possible value of a metric: infinity with the sign that is worse."""
    return -math.inf if direction == "maximize" else math.inf
