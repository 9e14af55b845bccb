"""Bands: median and quartile curves over the seeds of a configuration, with the curve of every seed."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from orchestrator.results.scoring.objective import judged_over_seeds
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


def make_bands(curves: pd.DataFrame, objective: Objective, directions: Mapping[str, str]) -> dict[CurveKey, Band]:
    """Return a band for every curve; failed seeds count as the objective says, by the direction of each metric.

    `curves` has one step of every seed, which need not be the same one.
    """
    directions = {**directions, objective.metric: objective.direction}
    medians = median_curves(curves.assign(step=0), directions, objective.failed_seeds)
    keys = ["config_id", "metric", "average"]
    seeds: dict[CurveKey, dict[int, tuple[float, ...]]] = {}
    for (*key, seed), found in _runs(curves, [*keys, "seed"]):
        seeds.setdefault(_key(key), {})[int(seed)] = tuple(found["value"].astype(float).tolist())
    return {
        _key(key): Band(
            lengths=tuple(found["length"].tolist()),
            q25=tuple(found["q25"].tolist()),
            median=tuple(found["median"].tolist()),
            q75=tuple(found["q75"].tolist()),
            seeds=seeds[_key(key)],
        )
        for key, found in _runs(medians, keys)
    }


def _key(names: Sequence[Any]) -> CurveKey:
    config_id, metric, average = map(str, names)
    return config_id, metric, average


def _runs(table: pd.DataFrame, keys: list[str]) -> Iterator[tuple[tuple[Any, ...], dict[str, NDArray[Any]]]]:
    """Yield the rows of each combination of keys by ascending length, as arrays; ten times faster than groupby."""
    table = table.sort_values([*keys, "length"])
    columns = {name: table[name].to_numpy() for name in table.columns}
    changed = np.zeros(len(table), dtype=bool)
    for name in keys:
        changed[1:] |= columns[name][1:] != columns[name][:-1]
    edges = [0, *np.flatnonzero(changed).tolist(), len(table)]
    for first, last in pairwise(edges if len(table) else []):
        yield tuple(columns[name][first] for name in keys), {n: c[first:last] for n, c in columns.items()}


def quartiles_at(band: Band, lengths: Sequence[int], objective: Objective) -> Quartiles | None:
    """Return the quartiles over seeds of the mean over `lengths`; NaN if every seed failed, None without lengths."""
    places = [i for i, length in enumerate(band.lengths) if length in lengths]
    if not places:
        return None
    means = [float(np.mean([values[i] for i in places])) for values in band.seeds.values()]
    return judged_over_seeds(means, objective)
