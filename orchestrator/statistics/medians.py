"""Median curves over the seeds of all configurations at once: millions of rows take seconds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from orchestrator.statistics.failed_seeds import failed_seed_value, worst_value
from orchestrator.statistics.quartiles import Quartiles, quartiles_of_rows

MEDIAN_CURVE_COLUMNS = (
    "config_id", "average", "metric", "length", "step", "q25", "median", "q75", "seeds", "failed"
)  # fmt: skip


def median_curves(
    curves: pd.DataFrame, directions: Mapping[str, str] | None = None, policy: str = "worst"
) -> pd.DataFrame:
    """Return the median and quartiles over the seeds of every configuration, average, metric, length and step.

    Columns: MEDIAN_CURVE_COLUMNS; `seeds` counts the rows, `failed` those that are NaN. Failed seeds count as `policy`
    says for the metric's direction in `directions` ("minimize" or "maximize"), as in `over_seeds`; a metric that is not
    in it has none. If every seed failed the median is NaN.
    """
    columns = ["config_id", "average", "metric", "step", "length"]
    if not len(curves):
        return pd.DataFrame({name: pd.Series(dtype="float64") for name in MEDIAN_CURVE_COLUMNS})
    codes, labels = zip(*(factorize(curves[name]) for name in columns), strict=True)
    key = np.zeros(len(curves), dtype=np.int64)
    for code, label in zip(codes, labels, strict=True):
        key = key * len(label) + code
    order = np.argsort(key, kind="stable")
    start = np.flatnonzero(np.diff(key[order], prepend=-1))
    seeds = np.diff(np.append(start, len(key)))
    place, index = np.repeat(np.arange(len(start)), seeds), np.arange(len(key))
    values_GS = np.full((len(start), seeds.max()), np.nan)  # groups by seeds, NaN where a group has fewer
    values_GS[place, index - start[place]] = curves["value"].to_numpy(dtype=np.float64)[order]
    alive = (~np.isnan(values_GS)).sum(axis=1)
    of_group = [code[order][start] for code in codes]
    ways = [(directions or {}).get(name, "none") for name in labels[2]]
    as_failed = np.array([failed_seed_value(policy, way) for way in ways])[of_group[2]]
    worst = np.array([worst_value(way) for way in ways])[of_group[2]]
    values_GS = np.where(np.isnan(values_GS), as_failed[:, None], values_GS)
    values_GS[np.arange(values_GS.shape[1]) >= seeds[:, None]] = np.nan
    values_GS.sort(axis=1)  # NaN last
    counted = np.where(np.isnan(as_failed), alive, seeds)
    result: dict[str, Any] = {
        name: label.take(code) for name, label, code in zip(columns, labels, of_group, strict=True)
    }
    for name, values in zip(Quartiles._fields, quartiles_of_rows(values_GS, counted, worst), strict=True):
        result[name] = np.where(alive == 0, np.nan, values)
    result["seeds"], result["failed"] = seeds, seeds - alive
    return pd.DataFrame(result)[list(MEDIAN_CURVE_COLUMNS)]


def factorize(column: pd.Series[Any]) -> tuple[npt.NDArray[np.int64], pd.Index[Any]]:
    """Return integer codes and their labels, in the order of the categories, else ascending."""
    if isinstance(column.dtype, pd.CategoricalDtype):
        codes = column.cat.codes.to_numpy().astype(np.int64)
        return codes, pd.CategoricalIndex(column.cat.categories, categories=column.cat.categories)
    labels, codes = np.unique(column.to_numpy(), return_inverse=True)
    return codes.astype(np.int64), pd.Index(labels)
