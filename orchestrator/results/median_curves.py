"""Curves against length over the seeds of a configuration: medians and quartiles, and every seed's own curve."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from orchestrator.results.objective import Objective, quartiles
from orchestrator.statistics import medians as statistics

CurveKey = tuple[str, str, str]  # config_id, metric, average


@dataclass(frozen=True)
class Quartiles:
    """Median and quartiles over the seeds of a configuration; infinite where failed seeds decide them."""

    median: float
    q25: float
    q75: float


@dataclass(frozen=True, kw_only=True)
class Band:
    """A metric of a weight average against length: median and quartiles over seeds, and every seed's own curve."""

    lengths: tuple[int, ...]
    median: tuple[float, ...]
    q25: tuple[float, ...]
    q75: tuple[float, ...]
    seeds: dict[int, tuple[float, ...]]


def bands_of(curves: pd.DataFrame, objective: Objective, directions: Mapping[str, str]) -> dict[CurveKey, Band]:
    """A band for every curve; failed seeds count as the worst value where the policy of the objective says so.

    `curves` has one step of every seed, which need not be the same one.
    """
    counted = {**directions, objective.metric: objective.direction} if objective.failed_seeds == "worst" else {}
    medians = statistics.median_curves(curves.assign(step=0), counted)
    keys = ["config_id", "metric", "average"]
    groups = dict(iter(curves.groupby(keys, observed=True)))
    bands: dict[CurveKey, Band] = {}
    for key, table in medians.groupby(keys, observed=True):
        config_id, metric, average = map(str, key)
        table = table.sort_values("length")
        seeds = groups[key].sort_values("length").groupby("seed")["value"]
        bands[config_id, metric, average] = Band(
            lengths=tuple(table["length"].tolist()),
            median=tuple(table["median"].tolist()),
            q25=tuple(table["q25"].tolist()),
            q75=tuple(table["q75"].tolist()),
            seeds={int(str(seed)): tuple(values.astype(float).tolist()) for seed, values in seeds},
        )
    return bands


def at_lengths(band: Band, lengths: Sequence[int], objective: Objective) -> Quartiles | None:
    """Quartiles over seeds of each seed's mean over `lengths`; NaN when every seed failed, None without lengths."""
    places = [i for i, length in enumerate(band.lengths) if length in lengths]
    if not places:
        return None
    return over_seeds([float(np.mean([values[i] for i in places])) for values in band.seeds.values()], objective)


def over_seeds(values: Iterable[float], objective: Objective) -> Quartiles:
    """Quartiles of one value for each seed, NaN for failed ones, by the objective's policy; NaN when all failed."""
    means = np.array(list(values), dtype=np.float64)
    alive = ~np.isnan(means)
    if not alive.any():
        return Quartiles(math.nan, math.nan, math.nan)
    worst = math.inf if objective.direction == "minimize" else -math.inf
    counted = np.where(alive, means, worst) if objective.failed_seeds == "worst" else means[alive]
    low, middle, high = quartiles(counted, worst)
    return Quartiles(middle, low, high)
