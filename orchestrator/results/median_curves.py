"""Curves against length over the seeds of a configuration: medians and quartiles, and every seed's own curve."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from orchestrator.results.objective import judged_over_seeds
from orchestrator.statistics.medians import median_curves
from orchestrator.statistics.quartiles import Quartiles
from search_spaces import Objective

CurveKey = tuple[str, str, str]  # config_id, metric, average


@dataclass(frozen=True, kw_only=True)
class Band:
    """A metric of a weight average against length: median and quartiles over seeds, and every seed's own curve."""

    lengths: tuple[int, ...]
    q25: tuple[float, ...]
    median: tuple[float, ...]
    q75: tuple[float, ...]
    seeds: dict[int, tuple[float, ...]]


def bands_of(curves: pd.DataFrame, objective: Objective, directions: Mapping[str, str]) -> dict[CurveKey, Band]:
    """A band for every curve; failed seeds count as the objective says, for the better direction of each metric.

    `curves` has one step of every seed, which need not be the same one.
    """
    directions = {**directions, objective.metric: objective.direction}
    medians = median_curves(curves.assign(step=0), directions, objective.failed_seeds)
    keys = ["config_id", "metric", "average"]
    groups = dict(iter(curves.groupby(keys, observed=True)))
    bands: dict[CurveKey, Band] = {}
    for key, table in medians.groupby(keys, observed=True):
        config_id, metric, average = map(str, key)
        table = table.sort_values("length")
        seeds = groups[key].sort_values("length").groupby("seed")["value"]
        bands[config_id, metric, average] = Band(
            lengths=tuple(table["length"].tolist()),
            q25=tuple(table["q25"].tolist()),
            median=tuple(table["median"].tolist()),
            q75=tuple(table["q75"].tolist()),
            seeds={int(str(seed)): tuple(values.astype(float).tolist()) for seed, values in seeds},
        )
    return bands


def at_lengths(band: Band, lengths: Sequence[int], objective: Objective) -> Quartiles | None:
    """Quartiles over seeds of each seed's mean over `lengths`; NaN when every seed failed, None without lengths."""
    places = [i for i, length in enumerate(band.lengths) if length in lengths]
    if not places:
        return None
    means = [float(np.mean([values[i] for i in places])) for values in band.seeds.values()]
    return judged_over_seeds(means, objective)
