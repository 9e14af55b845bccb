"""Bands: median and quartile curves over the seeds of a configuration, with the curve of every seed."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd

from orchestrator.results.scoring.objective import judged_over_seeds
from orchestrator.statistics.medians import factorize, median_curves
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
    for (config_id, metric, average, seed), (values,) in _runs(curves, [*keys, "seed"], ["value"]):
        seeds.setdefault((config_id, metric, average), {})[seed] = values
    bands: dict[CurveKey, Band] = {}
    for (config_id, metric, average), columns in _runs(medians, keys, ["length", "q25", "median", "q75"]):
        key = config_id, metric, average
        lengths, q25, median, q75 = columns
        bands[key] = Band(lengths=lengths, q25=q25, median=median, q75=q75, seeds=seeds[key])
    return bands


def _runs(
    table: pd.DataFrame, keys: Sequence[str], columns: Sequence[str]
) -> Iterator[tuple[tuple[Any, ...], list[tuple[Any, ...]]]]:
    """Yield each combination of keys with its columns by ascending length; fifty times faster than groupby."""
    codes, labels = zip(*(factorize(table[name]) for name in keys), strict=True)
    order = np.lexsort((table["length"].to_numpy(), *reversed(codes)))
    codes_KR = np.stack(codes)[:, order]
    changed = (np.diff(codes_KR, prepend=-1) != 0).any(axis=0)
    names = [label.tolist() for label in labels]
    plain = [table[name].to_numpy()[order].tolist() for name in columns]
    for first, last in pairwise([*np.flatnonzero(changed).tolist(), len(table)]):
        key = tuple(names[place][code] for place, code in enumerate(codes_KR[:, first].tolist()))
        yield key, [tuple(column[first:last]) for column in plain]


def quartiles_at(band: Band, lengths: Sequence[int], objective: Objective) -> Quartiles | None:
    """Return the quartiles over seeds of the mean over `lengths`; NaN if every seed failed, None without lengths."""
    places = [i for i, length in enumerate(band.lengths) if length in lengths]
    if not places:
        return None
    means = [float(np.mean([values[i] for i in places])) for values in band.seeds.values()]
    return judged_over_seeds(means, objective)
